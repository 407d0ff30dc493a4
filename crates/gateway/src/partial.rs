//! Routers with a part of the routes: while the process starts, and for the flow `inventory` alone.

use crate::{
    health,
    inventory::InventoryService,
    metrics::{self, Telemetry},
    openapi,
    problem::{Problem, excerpt},
    readiness::Readiness,
    routes::{self, RouterOptions},
};
use axum::{
    Router,
    extract::{FromRef, Request, State},
    routing::get,
};
use http::Uri;
use parking_lot::RwLock;
use std::sync::Arc;
use tower::ServiceExt;

/// State of the routes of the flow `inventory`, health and metrics.
#[derive(Debug, Clone)]
struct PartialState {
    inventory: InventoryService,
    telemetry: Telemetry,
}

impl FromRef<PartialState> for InventoryService {
    fn from_ref(state: &PartialState) -> Self {
        state.inventory.clone()
    }
}

impl FromRef<PartialState> for Telemetry {
    fn from_ref(state: &PartialState) -> Self {
        state.telemetry.clone()
    }
}

impl FromRef<PartialState> for Readiness {
    fn from_ref(state: &PartialState) -> Self {
        Readiness::from_ref(&state.telemetry)
    }
}

/// Router of a process that starts: health, metrics, and the flow `inventory`, which accepts URLs as soon as the broker is
/// connected.
pub fn starting_router(inventory: InventoryService, readiness: Readiness, options: RouterOptions) -> Router {
    let state = PartialState { inventory, telemetry: Telemetry::starting(readiness) };
    let router = partial_routes().merge(openapi::redirects()).fallback(not_started);
    with_middleware(router, state, options)
}

/// Router for the flow `inventory` alone, in a process without crawl records: its routes, health and metrics.
pub fn inventory_router(inventory: InventoryService, readiness: Readiness, options: RouterOptions) -> Router {
    let telemetry = Telemetry::of_queues(readiness, inventory.broker().clone());
    let router =
        partial_routes().fallback(not_routed).method_not_allowed_fallback(routes::method_not_allowed);
    with_middleware(router, PartialState { inventory, telemetry }, options)
}

fn partial_routes() -> Router<PartialState> {
    let (inventory, _) = routes::inventory::routes().split_for_parts();
    inventory
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
}

fn with_middleware(router: Router<PartialState>, state: PartialState, options: RouterOptions) -> Router {
    let requests = state.telemetry.requests().clone();
    routes::with_middleware(router, requests, state, options)
}

async fn not_started(State(readiness): State<Readiness>) -> Problem {
    let missing = readiness.missing();
    let missing = if missing.is_empty() { "its dependencies".to_owned() } else { missing.join(", ") };
    Problem::starting(format!("the process is starting and waits for {missing}; see `/health/ready`"))
}

async fn not_routed(uri: Uri) -> Problem {
    Problem::not_found(format!(
        "no route `{}`; this gateway has `/api/urls`, `/api/cache/urls`, `/health/live`, `/health/ready` and `/metrics`, and \
         the worker (`only_worker`) has the other routes",
        excerpt(uri.path())
    ))
}

/// Router that can be replaced at run time without closing connections.
#[derive(Debug, Clone)]
pub struct RouterSwitch(Arc<RwLock<Router>>);

impl RouterSwitch {
    /// Switch that starts with this router.
    pub fn new(router: Router) -> Self {
        Self(Arc::new(RwLock::new(router)))
    }

    /// Routes every later request to this router.
    pub fn set(&self, router: Router) {
        *self.0.write() = router;
    }

    /// Service that dispatches to the current router.
    pub fn into_router(self) -> Router {
        Router::new().fallback(move |request: Request| {
            let current = self.0.read().clone();
            current.oneshot(request)
        })
    }
}
