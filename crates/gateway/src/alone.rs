//! A gateway for the flow `inventory` alone, in a process that has no records of its own.

use crate::{
    health,
    inventory::Inventory,
    metrics::{self, Telemetry},
    problem::Problem,
    readiness::Readiness,
    routes::{self, Options},
};
use axum::{Router, extract::FromRef, routing::get};
use http::Uri;

/// What a gateway for this flow answers with.
#[derive(Debug, Clone)]
struct Alone {
    inventory: Inventory,
    telemetry: Telemetry,
}

impl FromRef<Alone> for Inventory {
    fn from_ref(alone: &Alone) -> Self {
        alone.inventory.clone()
    }
}

impl FromRef<Alone> for Telemetry {
    fn from_ref(alone: &Alone) -> Self {
        alone.telemetry.clone()
    }
}

impl FromRef<Alone> for Readiness {
    fn from_ref(alone: &Alone) -> Self {
        Readiness::from_ref(&alone.telemetry)
    }
}

/// The routes of the flow `inventory`, its health and its metrics.
pub fn inventory_router(inventory: Inventory, readiness: Readiness, options: Options) -> Router {
    let telemetry = Telemetry::of_queues(readiness, inventory.broker().clone());
    let state = Alone { inventory, telemetry };
    let (router, _) = routes::inventory::routes::<Alone>().split_for_parts();
    let router = router
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .fallback(elsewhere)
        .method_not_allowed_fallback(routes::another_method);
    let requests = state.telemetry.requests().clone();
    routes::framed(router, requests, state, options)
}

async fn elsewhere(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::not_found(format!(
        "there is nothing at `{path}`; this gateway has `/api/urls`, `/api/cache/urls`, `/health/live`, `/health/ready` and \
         `/metrics`, and what else there is belongs to the worker (`only_worker`)"
    ))
}
