//! The routes of the flow `inventory`. They need nothing but that flow, so that they are there before the rest is.

mod cached;
mod urls;

use crate::inventory::Inventory;
use axum::extract::FromRef;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S>
where
    Inventory: FromRef<S>,
{
    OpenApiRouter::new()
        .routes(routes!(urls::add_at_root))
        .routes(routes!(urls::add, urls::find))
        .routes(routes!(urls::one))
        .routes(routes!(cached::forget))
}
