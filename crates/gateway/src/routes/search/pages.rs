//! `/api/search`: pages by what they say.

use crate::{answers, extract::QueryOf, parts::Shared, problem::Problem, shape};
use axum::{Json, extract::State};
use crawlway_store::pages::Search;
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// What to find: words, `"phrases"`, `OR`, `-not`, `title:…`, `host:…`, `after:…`, `before:…`.
    q: String,
    /// At most so many hits, up to 1000.
    #[serde(default = "ten")]
    #[param(default = 10, maximum = 1000)]
    limit: usize,
    /// Pass over so many hits.
    #[serde(default)]
    #[param(default = 0)]
    offset: usize,
    /// Whether near-duplicates of a better hit are folded into it.
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

/// Find pages by what they say
#[utoipa::path(get, path = "/api/search", operation_id = "searchPages", tag = "search", params(SearchQuery), responses(
    (status = OK, body = shape::Results, description = "What was found, which may be nothing"),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json",
        description = "The query or a parameter is wrong; `position` says where in the query"),
))]
pub(super) async fn search(
    State(shared): State<Shared>,
    QueryOf(query): QueryOf<SearchQuery>,
) -> Result<Json<shape::Results>, Problem> {
    let Some(index) = &shared.parts.index else {
        return Err(Problem::unavailable("this process has no search index; ask one that has"));
    };
    let SearchQuery { q, limit, offset, fold } = query;
    let search = Search { query: q, offset, limit, fold };
    Ok(Json(answers::search(&**index, &search).await?))
}
