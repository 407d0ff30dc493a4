//! `/api/cache/urls`: invalidation of the record cache.

use super::urls::record_id;
use crate::{dto::CacheInvalidation, extract::QueryParams, inventory::InventoryService, problem::Problem};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct InvalidateQuery {
    /// URL whose record is removed from the cache; all records if omitted.
    url: Option<String>,
}

/// Remove a record from the cache, or all records
///
/// Each gateway process has its own cache. Only finished records are served from it.
#[utoipa::path(delete, path = "/api/cache/urls", operation_id = "forgetCachedUrl", tag = "urls", params(InvalidateQuery), responses(
    (status = OK, body = CacheInvalidation, description = "Number of removed cache entries"),
    (status = BAD_REQUEST, description = "Invalid URL"),
))]
pub(super) async fn invalidate(
    State(inventory): State<InventoryService>,
    QueryParams(query): QueryParams<InvalidateQuery>,
) -> Result<Json<CacheInvalidation>, Problem> {
    let id = query.url.as_deref().map(record_id).transpose()?;
    Ok(Json(CacheInvalidation { forgotten: inventory.invalidate(id) }))
}
