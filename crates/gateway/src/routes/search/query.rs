//! `/api/search`: full-text search.

use crate::{dto, extract::QueryParams, problem::Problem, service, state::GatewayState};
use axum::{Json, extract::State};
use crawlway_store::pages::SearchRequest;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// Query: words, `"phrases"`, `OR`, `-not`, `title:…`, `host:…`, `after:…`, `before:…`.
    q: String,
    /// Maximum number of hits, up to 1000.
    #[serde(default = "ten")]
    #[param(default = 10, maximum = 1000)]
    limit: usize,
    /// Number of hits to skip.
    #[serde(default)]
    #[param(default = 0)]
    offset: usize,
    /// Whether near-duplicates are folded into their best hit.
    #[serde(default = "yes")]
    #[param(default = true)]
    fold: bool,
}

fn ten() -> usize {
    10
}

fn yes() -> bool {
    true
}

/// Search pages by their text
#[utoipa::path(get, path = "/api/search", operation_id = "searchPages", tag = "search", params(SearchQuery), responses(
    (status = OK, body = dto::Results, description = "Search results"),
    (status = BAD_REQUEST, description = "Invalid query or parameter; `position` has the place in the query"),
))]
pub(super) async fn search(
    State(state): State<GatewayState>,
    QueryParams(query): QueryParams<SearchQuery>,
) -> Result<Json<dto::Results>, Problem> {
    let SearchQuery { q, limit, offset, fold } = query;
    let search = SearchRequest { query: q, offset, limit, collapse_duplicates: fold };
    Ok(Json(service::search(&*state.index()?, &search).await?))
}
