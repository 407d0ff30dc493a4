//! Routes of the flow `inventory`.

mod cache;
mod urls;

use crate::state::GatewayState;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Routes of the flow `inventory`: `/api/urls`, and the cache of its records.
pub fn inventory_routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new()
        .routes(routes!(urls::add_at_root))
        .routes(routes!(urls::add, urls::find))
        .routes(routes!(urls::one))
        .routes(routes!(cache::invalidate))
}
