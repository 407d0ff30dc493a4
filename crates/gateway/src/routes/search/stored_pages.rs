//! `/api/pages`: stored pages.

use crate::{
    dto::{PageList, StoredPage},
    extract::QueryParams,
    problem::Problem,
    routes::default_limit,
    service::excerpt,
    state::GatewayState,
    stored_pages::{self, CrawlStores, PageQuery},
};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PagesQuery {
    /// URL, for its page with the text instead of a list.
    url: Option<String>,
    /// Host; includes its subdomains.
    host: Option<String>,
    /// Search query in the language of `/api/search`.
    query: Option<String>,
    /// Name of a crawl, for the pages of its URLs, even if another crawl fetched them.
    crawl: Option<String>,
    /// Pagination cursor: `next` of the previous list.
    cursor: Option<String>,
    /// Maximum number of pages, 1 to 1000; with texts 1 to 100. A shorter list may still have a `next`.
    limit: Option<usize>,
    /// Whether the list contains the texts.
    #[serde(default)]
    #[param(default = false)]
    text: bool,
}

/// Page, or list of pages.
#[derive(Debug, serde::Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = StoredPageOrList)]
#[allow(dead_code, clippy::large_enum_variant, reason = "used for the OpenAPI schema alone")]
pub(super) enum OneOrMany {
    #[schema(title = "one")]
    One(StoredPage),
    #[schema(title = "many")]
    Many(PageList),
}

/// Get the stored page of a URL (`url`), or list stored pages in order of URL
#[utoipa::path(get, path = "/api/pages", operation_id = "findPages", tag = "search", params(PagesQuery), responses(
    (status = OK, body = inline(OneOrMany), description = "Page, or list of pages"),
    (status = BAD_REQUEST, description = "Invalid query or parameter"),
    (status = NOT_FOUND, description = "Unknown page"),
))]
pub(super) async fn find(
    State(state): State<GatewayState>,
    QueryParams(query): QueryParams<PagesQuery>,
) -> Result<Response, Problem> {
    let index = state.index()?;
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
            return Err(Problem::invalid("cannot be combined with `url`; leave one of them out").field(name));
        }
        let page = stored_pages::page(&*index, &url).await?;
        let page = page.ok_or_else(|| {
            let detail =
                format!("no stored page of `{}`; see `/api/trails?url=` for its trail", excerpt(&url));
            Problem::not_found(detail).field("url")
        })?;
        return Ok(Json(page).into_response());
    }
    let limit = limit.unwrap_or_else(default_limit);
    let wanted = PageQuery { host, query, crawl, cursor, limit, with_text: text };
    // Only a list of a crawl needs its records.
    let records = match wanted.crawl {
        Some(_) => Some((state.frontier()?, state.trails()?)),
        None => None,
    };
    let records =
        records.as_ref().map(|(frontier, trails)| CrawlStores { frontier: &**frontier, trails: &**trails });
    Ok(Json(stored_pages::pages(&*index, records, &wanted).await?).into_response())
}
