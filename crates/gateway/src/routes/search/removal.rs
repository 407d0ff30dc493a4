//! `DELETE /api/pages`: removing pages from the index.

use crate::{answers::removal, extract::QueryOf, parts::Shared, problem::Problem, shape::RemovedPages};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RemovalQuery {
    /// The page of this URL.
    url: Option<String>,
    /// All pages of this host and of its subdomains.
    host: Option<String>,
}

/// Remove a page, or all pages of a host, from the index
///
/// They are found no more when this is answered. A page that is crawled again comes back; what a crawl knows of its URLs stays.
#[utoipa::path(delete, path = "/api/pages", operation_id = "removePages", tag = "search", params(RemovalQuery), responses(
    (status = OK, body = RemovedPages, description = "How many; none is no failure"),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json",
        description = "Neither `url` nor `host` is given, or both, or one of them is wrong"),
))]
pub(super) async fn remove(
    State(shared): State<Shared>,
    QueryOf(query): QueryOf<RemovalQuery>,
) -> Result<Json<RemovedPages>, Problem> {
    let Some(index) = shared.parts.index.clone() else {
        return Err(Problem::unavailable("this process has no search index; ask one that has"));
    };
    // Seen through even if the caller goes away.
    let removing = tokio::spawn(async move {
        match query {
            RemovalQuery { url: Some(url), host: None } => removal::remove_urls(&*index, &[url]).await,
            RemovalQuery { url: None, host: Some(host) } => removal::remove_host(&*index, &host).await,
            _ => Err(Problem::invalid("say which pages are meant: give either `url` or `host`").field("url")),
        }
    });
    let removed = removing.await.map_err(|_| Problem::internal("the removal broke off; ask again"))?;
    Ok(Json(removed?))
}
