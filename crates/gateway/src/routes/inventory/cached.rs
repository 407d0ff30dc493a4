//! `/api/cache/urls`: forgetting what the cache has.

use super::urls::id_of;
use crate::{extract::QueryOf, inventory::Inventory, problem::Problem, shape::Forgotten};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ForgetQuery {
    /// The URL whose record is forgotten; all of them if none is given.
    url: Option<String>,
}

/// Have a record read from the store again, however young the one in the cache is
///
/// The cache is this process's own. Records that are not finished are never in it.
#[utoipa::path(delete, path = "/api/cache/urls", operation_id = "forgetCachedUrl", tag = "urls", params(ForgetQuery), responses(
    (status = OK, body = Forgotten, description = "The cache has it no longer"),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json", description = "It is no URL"),
))]
pub(super) async fn forget(
    State(inventory): State<Inventory>,
    QueryOf(query): QueryOf<ForgetQuery>,
) -> Result<Json<Forgotten>, Problem> {
    let id = query.url.as_deref().map(id_of).transpose()?;
    Ok(Json(Forgotten { forgotten: inventory.forget(id) }))
}
