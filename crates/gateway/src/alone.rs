//! A gateway for the flow `inventory` alone, in a process that has no records of its own.

use crate::{
    health::{self, Ready},
    inventory::Inventory,
    problem::Problem,
    routes::{self, Options},
};
use axum::{Json, Router, extract::State, routing::get};
use http::{StatusCode, Uri};
use std::sync::Arc;

/// The routes of the flow `inventory`, and its health.
pub fn inventory_router(inventory: Inventory, options: Options) -> Router {
    let (router, _) = routes::inventory::routes::<Inventory>().split_for_parts();
    let router = router
        .route("/health/live", get(health::live))
        .route("/health/ready", get(ready))
        .fallback(elsewhere);
    routes::framed(
        router.method_not_allowed_fallback(routes::another_method),
        Arc::default(),
        inventory,
        options,
    )
}

async fn ready(State(inventory): State<Inventory>) -> (StatusCode, Json<Ready>) {
    health::answered(health::of_inventory(&inventory).await)
}

async fn elsewhere(uri: Uri) -> Problem {
    let path: String = uri.path().chars().take(200).collect();
    Problem::not_found(format!(
        "there is nothing at `{path}`; this gateway has `/api/urls`, `/api/cache/urls`, `/health/live` and `/health/ready`, \
         and what else there is belongs to the worker (`only_worker`)"
    ))
}
