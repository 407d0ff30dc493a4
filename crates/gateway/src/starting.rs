//! What is answered while the process waits for its servers: that it lives, what is missing, and the flow `inventory`.

use crate::{
    health::{self, Dependency, Ready},
    inventory::Inventory,
    problem::Problem,
    routes::{self, Options},
};
use axum::{
    Json, Router,
    extract::{FromRef, Request, State},
    routing::get,
};
use http::StatusCode;
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};
use tower::ServiceExt;

/// What a process that starts can answer with.
#[derive(Clone)]
pub struct Starting {
    /// The flow `inventory`, which accepts URLs as soon as the broker is there.
    pub inventory: Inventory,
    /// What is missing, by name, and why.
    pub missing: Arc<dyn Fn() -> Vec<(&'static str, String)> + Send + Sync>,
}

impl fmt::Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Starting").field("inventory", &self.inventory).finish_non_exhaustive()
    }
}

impl FromRef<Starting> for Inventory {
    fn from_ref(starting: &Starting) -> Self {
        starting.inventory.clone()
    }
}

/// The gateway of a process that starts.
pub fn starting(starting: Starting, options: Options) -> Router {
    let (inventory, _) = routes::inventory::routes::<Starting>().split_for_parts();
    let router = inventory
        .route("/health/live", get(health::live))
        .route("/health/ready", get(not_ready))
        .fallback(later);
    routes::framed(router, Arc::default(), starting, options)
}

async fn not_ready(State(starting): State<Starting>) -> (StatusCode, Json<Ready>) {
    let missing = (starting.missing)().into_iter();
    let mut dependencies: Vec<Dependency> =
        missing.map(|(name, reason)| Dependency { name, ready: false, reason: Some(reason) }).collect();
    let reason = "it starts, and waits for what is missing".to_owned();
    dependencies.push(Dependency { name: "process", ready: false, reason: Some(reason) });
    (StatusCode::SERVICE_UNAVAILABLE, Json(Ready { ready: false, dependencies }))
}

async fn later(State(starting): State<Starting>) -> Problem {
    let missing: Vec<String> =
        (starting.missing)().into_iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let missing = if missing.is_empty() { "what it needs".to_owned() } else { missing.join("; ") };
    Problem::starting(format!("the process starts, and waits for {missing}"))
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
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = router;
    }

    /// The service.
    pub fn into_router(self) -> Router {
        Router::new().fallback(move |request: Request| {
            let now = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
            now.oneshot(request)
        })
    }
}
