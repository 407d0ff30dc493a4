//! Routes of the flow `inventory`. They depend on that flow alone, so that they are available while the process starts.

mod cache;
mod urls;

use crate::inventory::InventoryService;
use axum::extract::FromRef;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S>
where
    InventoryService: FromRef<S>,
{
    OpenApiRouter::new()
        .routes(routes!(urls::add_at_root))
        .routes(routes!(urls::add, urls::find))
        .routes(routes!(urls::one))
        .routes(routes!(cache::invalidate))
}
