//! `/api/crawls`: start, progress and control of crawls.

use super::{new_crawl::NewCrawl, sitemaps};
use crate::{
    dto::{AcceptedCrawl, CrawlList, CrawlUrls, CrawlView, DeletedCrawl, SeedFailure},
    extract::{JsonBody, PathParams, QueryParams},
    index_backlog::BacklogSample,
    problem::Problem,
    routes::{default_limit, uncancelled},
    service::{Error, crawls},
    state::GatewayState,
};
use axum::{
    Json,
    extract::State,
    response::{AppendHeaders, IntoResponse},
};
use crawlway_fetch::Fetcher;
use crawlway_flows::search::{CrawlRequest, failed_seeds, start_crawl};
use crawlway_store::{
    Frontier, SeenUrls,
    frontier::{Crawl, CrawlState},
};
use http::{StatusCode, header};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Maximum number of crawls, 1 to 500.
    #[serde(default = "default_limit")]
    #[param(default = 50, minimum = 1, maximum = 500)]
    limit: usize,
    /// Name of a crawl; the list contains older ones.
    after: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UrlsQuery {
    /// Outcome, such as `published` or `gone`, or state: `waiting` (pending), `in_flight`, `done` or `dead`.
    outcome: Option<String>,
    /// Pagination cursor: `next` of the previous list.
    after: Option<String>,
    /// Maximum number of URLs, 1 to 1000.
    #[serde(default = "default_limit")]
    #[param(default = 50, minimum = 1, maximum = 1000)]
    limit: usize,
}

/// Start a crawl, or continue the crawl of the same name
///
/// The crawl and its seeds are durably stored before the response. An existing crawl continues with the new settings: a higher
/// limit continues with pending URLs, a wider scope adds excluded URLs, failed URLs are retried, and seeds and pages that are due
/// are fetched again. Sitemaps are read in the background.
#[utoipa::path(post, path = "/api/crawls", operation_id = "startCrawl", tag = "crawls", request_body = NewCrawl, responses(
    (status = ACCEPTED, body = AcceptedCrawl, description = "Accepted, durably stored",
        headers(("location" = String, description = "Path of the crawl"))),
    (status = BAD_REQUEST, description = "Invalid settings, such as a seed with a forbidden address; `field` has the place"),
))]
pub(super) async fn start(
    State(state): State<GatewayState>,
    JsonBody(crawl): JsonBody<NewCrawl>,
) -> Result<impl IntoResponse, Problem> {
    crawl.check_addresses(&state.context().inventory)?;
    let crawl = crawl.into_request(state.context().crawl_defaults)?;
    let (frontier, seen) = (state.frontier()?, state.seen()?);
    let fetcher = if crawl.definition.sitemaps { Some(state.fetcher()?) } else { None };
    let begin = begin_crawl(state, frontier, seen, fetcher, crawl);
    let accepted = uncancelled(begin, "the start was interrupted; repeat the request").await?;
    let location = AppendHeaders([(header::LOCATION, accepted.location.clone())]);
    Ok((StatusCode::ACCEPTED, location, Json(accepted)))
}

async fn begin_crawl(
    state: GatewayState,
    frontier: Arc<dyn Frontier>,
    seen: Arc<dyn SeenUrls>,
    fetcher: Option<Arc<Fetcher>>,
    crawl: CrawlRequest,
) -> Result<AcceptedCrawl, Error> {
    let started = start_crawl(&*frontier, &*seen, &crawl).await?;
    (state.context().wake)();
    let id = started.crawl.id.clone();
    if let Some(fetcher) = fetcher {
        sitemaps::spawn(&state, &frontier, &fetcher, id.clone(), crawl.definition);
    }
    Ok(AcceptedCrawl {
        location: format!("/api/crawls/{id}"),
        name: id.to_string(),
        new: started.new,
        added: started.added,
        again: started.reopened,
        recent: started.recent,
        outcomes: started.outcomes,
    })
}

/// List crawls, the newest first
#[utoipa::path(get, path = "/api/crawls", operation_id = "listCrawls", tag = "crawls", params(ListQuery), responses(
    (status = OK, body = CrawlList),
))]
pub(super) async fn list(
    State(state): State<GatewayState>,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<CrawlList>, Problem> {
    let (frontier, queues) = (state.frontier()?, state.queues()?);
    let (crawls, next) = crawls::list(&*frontier, query.after.as_deref(), query.limit).await?;
    let last_end = crawls.iter().filter_map(|crawl| crawl.ended_at).max();
    let backlog = BacklogSample::take(&state, &*queues, last_end).await?;
    Ok(Json(CrawlList {
        crawls: crawls.into_iter().map(|crawl| view(&state, crawl, &backlog)).collect(),
        next,
    }))
}

/// Get a crawl with its progress: state, counts by outcome, rate and ETA
#[utoipa::path(get, path = "/api/crawls/{name}", operation_id = "getCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView),
    (status = NOT_FOUND, description = "Unknown crawl"),
))]
pub(super) async fn one(
    State(state): State<GatewayState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    let (frontier, queues) = (state.frontier()?, state.queues()?);
    let crawl = crawls::crawl(&*frontier, &id).await?;
    let backlog = BacklogSample::take(&state, &*queues, crawl.ended_at).await?;
    let failed = match crawl.state.has_ended() {
        true => failed_seeds(&*frontier, &*state.trails()?, &crawl).await.map_err(Error::from)?,
        false => Vec::new(),
    };
    let failed_seeds = failed.into_iter().map(SeedFailure::from).collect();
    Ok(Json(CrawlView { failed_seeds, ..view(&state, crawl, &backlog) }))
}

/// Pause a crawl; URLs in flight are finished
#[utoipa::path(post, path = "/api/crawls/{name}/pause", operation_id = "pauseCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView, description = "Paused"),
    (status = NOT_FOUND, description = "Unknown crawl"),
    (status = CONFLICT, description = "The crawl has ended"),
))]
pub(super) async fn pause(
    state: State<GatewayState>,
    id: PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    set(state, id, CrawlState::Paused).await
}

/// Resume a paused or cancelled crawl
#[utoipa::path(post, path = "/api/crawls/{name}/resume", operation_id = "resumeCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView, description = "Running, or finished if no URL is left"),
    (status = NOT_FOUND, description = "Unknown crawl"),
    (status = CONFLICT, description = "The crawl has finished"),
))]
pub(super) async fn resume(
    state: State<GatewayState>,
    id: PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    set(state, id, CrawlState::Running).await
}

/// Cancel a crawl; URLs in flight are finished
#[utoipa::path(post, path = "/api/crawls/{name}/cancel", operation_id = "cancelCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView, description = "Cancelled"),
    (status = NOT_FOUND, description = "Unknown crawl"),
    (status = CONFLICT, description = "The crawl has finished"),
))]
pub(super) async fn cancel(
    state: State<GatewayState>,
    id: PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    set(state, id, CrawlState::Cancelled).await
}

/// Delete a crawl and its URLs
///
/// Its pages stay in the index, and URLs in flight are abandoned. A later crawl of the same name is a new one.
#[utoipa::path(delete, path = "/api/crawls/{name}", operation_id = "deleteCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = DeletedCrawl, description = "Deleted"),
    (status = NOT_FOUND, description = "Unknown crawl"),
))]
pub(super) async fn delete(
    State(state): State<GatewayState>,
    PathParams(id): PathParams<String>,
) -> Result<Json<DeletedCrawl>, Problem> {
    let frontier = state.frontier()?;
    let delete = async move { crawls::delete(&*frontier, &id).await };
    Ok(Json(uncancelled(delete, "the deletion was interrupted; repeat the request").await?))
}

/// List the URLs of a crawl, all or by outcome, in the order of discovery
#[utoipa::path(get, path = "/api/crawls/{name}/urls", operation_id = "listCrawlUrls", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl"), UrlsQuery), responses(
    (status = OK, body = CrawlUrls),
    (status = NOT_FOUND, description = "Unknown crawl"),
))]
pub(super) async fn urls(
    State(state): State<GatewayState>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<UrlsQuery>,
) -> Result<Json<CrawlUrls>, Problem> {
    let UrlsQuery { outcome, after, limit } = query;
    let listed = crawls::urls(&*state.frontier()?, &id, outcome.as_deref(), after.as_deref(), limit).await?;
    Ok(Json(listed))
}

async fn set(
    State(state): State<GatewayState>,
    PathParams(id): PathParams<String>,
    wanted: CrawlState,
) -> Result<Json<CrawlView>, Problem> {
    // The queues are for the response: without them the state would change, and the response be an error.
    let (frontier, queues) = (state.frontier()?, state.queues()?);
    let crawl = crawls::set_state(&*frontier, &id, wanted).await?;
    (state.context().wake)();
    let backlog = BacklogSample::take(&state, &*queues, crawl.ended_at).await?;
    Ok(Json(view(&state, crawl, &backlog)))
}

fn view(state: &GatewayState, crawl: Crawl, backlog: &BacklogSample) -> CrawlView {
    let search = state.search();
    let rate = search.rates.rate(&crawl);
    let to_be_indexed = search.backlog.remaining(&crawl, backlog);
    let reading = search.reading_sitemaps.lock().contains(&crawl.id);
    let is_idle =
        crawl.state == CrawlState::Running && crawl.counts.in_flight == 0 && crawl.counts.waiting > 0;
    let waits_for = match crawl.state {
        CrawlState::Paused => Some(format!("paused; `crawlway crawl resume {}` resumes it", crawl.id)),
        _ if is_idle => state.context().fetcher.get().and_then(|fetcher| fetcher.delayed_hosts_summary()),
        _ => None,
    };
    CrawlView::new(crawl, rate, Some(to_be_indexed), waits_for, reading)
}
