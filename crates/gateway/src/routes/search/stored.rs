//! `/api/pages`: reading stored pages back.

use crate::{
    extract::QueryOf,
    parts::Shared,
    problem::Problem,
    shape::{PageList, StoredPage},
    stored::{self, CrawlRecords, PagesWanted},
};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// How many pages a list has for which nothing is said.
const FEW: usize = 50;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PagesQuery {
    /// The page of this URL with its text, and no list.
    url: Option<String>,
    /// Only pages of this host and its subdomains.
    host: Option<String>,
    /// Only pages that this query finds, in the language of `/api/search`.
    query: Option<String>,
    /// Only pages of the crawl of this name, whichever crawl has fetched them.
    crawl: Option<String>,
    /// Go on after the list that had this as its `next`.
    cursor: Option<String>,
    /// At most so many, 1 to 1000; with texts 1 to 100. A list may be shorter and still have a `next`.
    limit: Option<usize>,
    /// Whether the texts of the pages are in the list.
    #[serde(default)]
    #[param(default = false)]
    text: bool,
}

/// One page, or several.
#[derive(Debug, serde::Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = StoredPageOrList)]
#[allow(dead_code, clippy::large_enum_variant, reason = "only described: each is answered by itself")]
pub(super) enum OneOrMany {
    #[schema(title = "one")]
    One(StoredPage),
    #[schema(title = "many")]
    Many(PageList),
}

/// The stored page of a URL (`url`), or a list of stored pages in order of URL
#[utoipa::path(get, path = "/api/pages", operation_id = "findPages", tag = "search", params(PagesQuery), responses(
    (status = OK, body = inline(OneOrMany), description = "The page, or the list"),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json",
        description = "The query or a parameter is wrong"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "No page of this URL is stored"),
))]
pub(super) async fn find(
    State(shared): State<Shared>,
    QueryOf(query): QueryOf<PagesQuery>,
) -> Result<Response, Problem> {
    let Some(index) = &shared.parts.index else {
        return Err(Problem::unavailable("this process has no search index; ask one that has"));
    };
    let PagesQuery { url, host, query, crawl, cursor, limit, text } = query;
    if let Some(url) = url {
        let others = [
            ("host", host.is_some()),
            ("query", query.is_some()),
            ("crawl", crawl.is_some()),
            ("cursor", cursor.is_some()),
            ("limit", limit.is_some()),
        ];
        if let Some((name, _)) = others.into_iter().find(|(_, given)| *given) {
            return Err(
                Problem::invalid("a URL has one page; leave this out, or leave `url` out").field(name)
            );
        }
        let page = stored::page(&**index, &url).await?;
        let page = page.ok_or_else(|| {
            let url: String = url.chars().take(200).collect();
            Problem::not_found(format!(
                "no page of `{url}` is stored; `/api/trails?url=` says what happened to it"
            ))
            .field("url")
        })?;
        return Ok(Json(page).into_response());
    }
    let limit = limit.unwrap_or(FEW);
    let wanted = PagesWanted { host, query, crawl, cursor, limit, with_text: text };
    let records = CrawlRecords { frontier: &*shared.parts.frontier, trails: &*shared.parts.trails };
    Ok(Json(stored::pages(&**index, Some(records), &wanted).await?).into_response())
}
