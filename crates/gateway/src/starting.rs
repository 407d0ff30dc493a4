//! What is answered while the process waits for its servers: that it lives, what is missing, and the flow `inventory`.

use crate::{
    health,
    inventory::Inventory,
    metrics::{self, Telemetry},
    openapi,
    problem::Problem,
    readiness::Readiness,
    routes::{self, Options},
};
use axum::{
    Router,
    extract::{FromRef, Request, State},
    routing::get,
};
use parking_lot::RwLock;
use std::sync::Arc;
use tower::ServiceExt;

/// What a gateway that starts can answer with.
#[derive(Debug, Clone)]
struct Starting {
    inventory: Inventory,
    telemetry: Telemetry,
}

impl FromRef<Starting> for Inventory {
    fn from_ref(starting: &Starting) -> Self {
        starting.inventory.clone()
    }
}

impl FromRef<Starting> for Telemetry {
    fn from_ref(starting: &Starting) -> Self {
        starting.telemetry.clone()
    }
}

impl FromRef<Starting> for Readiness {
    fn from_ref(starting: &Starting) -> Self {
        Readiness::from_ref(&starting.telemetry)
    }
}

/// The gateway of a process that starts: health, metrics, and the flow `inventory`, which accepts URLs as soon as the broker is
/// there.
pub fn starting(inventory: Inventory, readiness: Readiness, options: Options) -> Router {
    let state = Starting { inventory, telemetry: Telemetry::starting(readiness) };
    let (inventory, _) = routes::inventory::routes::<Starting>().split_for_parts();
    let router = inventory
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .merge(openapi::redirects())
        .fallback(later);
    let requests = state.telemetry.requests().clone();
    routes::framed(router, requests, state, options)
}

async fn later(State(readiness): State<Readiness>) -> Problem {
    let missing = readiness.missing();
    let missing = if missing.is_empty() { "what it needs".to_owned() } else { missing.join(", ") };
    Problem::starting(format!("the process starts, and waits for {missing}; `/health/ready` says why"))
}

/// A service that can be exchanged for another while connections stay.
#[derive(Debug, Clone)]
pub struct Switch(Arc<RwLock<Router>>);

impl Switch {
    /// Answers with this, for now.
    pub fn new(router: Router) -> Self {
        Self(Arc::new(RwLock::new(router)))
    }

    /// Answers every later request with this.
    pub fn set(&self, router: Router) {
        *self.0.write() = router;
    }

    /// The service.
    pub fn into_router(self) -> Router {
        Router::new().fallback(move |request: Request| {
            let now = self.0.read().clone();
            now.oneshot(request)
        })
    }
}
