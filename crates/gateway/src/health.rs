//! Liveness and readiness: `/health/live` and `/health/ready`.

use crate::{
    caller::Caller,
    readiness::{Dependency, Readiness},
};
use axum::{Json, extract::State};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Whether this path is a health check, which has connections of its own.
pub(crate) fn is_health(path: &str) -> bool {
    matches!(path, "/health/live" | "/health/ready")
}

/// Liveness of the process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Live {
    /// Always true.
    live: bool,
}

/// Readiness of the process.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Whether all dependencies are ready.
    ready: bool,
    /// Dependencies of the process.
    dependencies: Vec<Dependency>,
}

/// Check liveness
#[utoipa::path(get, path = "/health/live", operation_id = "getLive", tag = "health", responses((status = OK, body = Live)))]
pub(crate) async fn live() -> Json<Live> {
    Json(Live { live: true })
}

/// Check readiness
///
/// Each dependency is probed at most once a second. Reasons are only shown to admins, and, if `gateway.token` is not set, to
/// clients on this machine without a token.
#[utoipa::path(get, path = "/health/ready", operation_id = "getReady", tag = "health", responses(
    (status = OK, body = Ready, description = "Ready"),
    (status = SERVICE_UNAVAILABLE, body = Ready, description = "Not ready; `dependencies` has the reasons"),
))]
pub(crate) async fn ready(State(readiness): State<Readiness>, caller: Caller) -> (StatusCode, Json<Ready>) {
    let mut dependencies = readiness.check().await;
    if !caller.trusted {
        dependencies.iter_mut().for_each(|dependency| dependency.reason = None);
    }
    let ready = dependencies.iter().all(|dependency| dependency.ready);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, dependencies }))
}
