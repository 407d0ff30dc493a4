//! Whether the process lives, and whether it can do its work: `/health/live` and `/health/ready`.

use crate::{
    auth::Caller,
    readiness::{Dependency, Readiness},
};
use axum::{Extension, Json, extract::State};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Whether this is what an orchestrator asks, which is answered even when nothing else is.
pub(crate) fn is_health(path: &str) -> bool {
    matches!(path, "/health/live" | "/health/ready")
}

/// That the process lives.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Live {
    live: bool,
}

/// Whether the process can do its work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Whether everything that is needed is in order.
    ready: bool,
    /// What is needed.
    dependencies: Vec<Dependency>,
}

/// Whether the process lives: it does if it answers
#[utoipa::path(get, path = "/health/live", operation_id = "getLive", tag = "health", responses((status = OK, body = Live)))]
pub(crate) async fn live() -> Json<Live> {
    Json(Live { live: true })
}

/// Whether the process can do its work, part by part
///
/// The parts are asked at most once a second, however many callers there are. The reasons are for callers who are trusted: who
/// sends the token, or, where none is set, asks from this machine. Others are told the names of the parts and their state.
#[utoipa::path(get, path = "/health/ready", operation_id = "getReady", tag = "health", responses(
    (status = OK, body = Ready, description = "It can"),
    (status = SERVICE_UNAVAILABLE, body = Ready, description = "It cannot; the parts that are not ready say why"),
))]
pub(crate) async fn ready(
    State(readiness): State<Readiness>,
    Extension(caller): Extension<Caller>,
) -> (StatusCode, Json<Ready>) {
    let mut dependencies = readiness.look().await;
    if caller == Caller::Stranger {
        dependencies.iter_mut().for_each(|dependency| dependency.reason = None);
    }
    let ready = dependencies.iter().all(|dependency| dependency.ready);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Ready { ready, dependencies }))
}
