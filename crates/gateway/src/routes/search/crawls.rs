//! `/api/crawls`: start, progress and control of crawls.

use super::new_crawl::NewCrawl;
use crate::{
    context::Shared,
    dto::{AcceptedCrawl, CrawlList, CrawlUrls, CrawlView, DeletedCrawl, SeedFailure},
    extract::{JsonBody, PathParams, QueryParams},
    index_backlog::BacklogSample,
    problem::Problem,
    routes::{default_limit, uncancelled},
    service::crawls,
};
use axum::{
    Json,
    extract::State,
    response::{AppendHeaders, IntoResponse},
};
use crawlway_flows::search::{CrawlRequest, Definition, add_sitemaps, failed_seeds, start_crawl};
use crawlway_store::{
    CrawlId,
    frontier::{Crawl, CrawlState},
};
use http::{StatusCode, header};
use serde::Deserialize;
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
    State(shared): State<Shared>,
    JsonBody(crawl): JsonBody<NewCrawl>,
) -> Result<impl IntoResponse, Problem> {
    crawl.check_addresses(&shared.context.inventory)?;
    let crawl = crawl.into_request(shared.context.crawl_defaults)?;
    let accepted =
        uncancelled(begin_crawl(shared, crawl), "the start was interrupted; repeat the request").await?;
    let location = AppendHeaders([(header::LOCATION, accepted.location.clone())]);
    Ok((StatusCode::ACCEPTED, location, Json(accepted)))
}

async fn begin_crawl(shared: Shared, crawl: CrawlRequest) -> Result<AcceptedCrawl, Problem> {
    let started = start_crawl(&*shared.context.frontier, &*shared.context.seen, &crawl).await?;
    (shared.context.wake)();
    let id = started.crawl.id.clone();
    if crawl.definition.sitemaps {
        spawn_sitemaps(&shared, id.clone(), crawl.definition);
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

/// Reads the sitemaps that were not read before the last shutdown.
pub(in crate::routes) async fn resume_sitemaps(shared: Shared) {
    let mut after = None;
    loop {
        let crawls = shared.context.frontier.crawls(after.as_ref(), crawls::MAX_CRAWLS).await;
        let Ok(crawls) = crawls else { return };
        for crawl in &crawls {
            let Ok(definition) = serde_json::from_str::<Definition>(&crawl.definition) else { continue };
            if definition.state.sitemaps_unread && crawl.state != CrawlState::Cancelled {
                spawn_sitemaps(&shared, crawl.id.clone(), definition);
            }
        }
        after = crawls.last().map(|crawl| crawl.id.clone());
        if crawls.len() < crawls::MAX_CRAWLS {
            return;
        }
    }
}

fn spawn_sitemaps(shared: &Shared, id: CrawlId, definition: Definition) {
    let mut reading = shared.reading_sitemaps.lock();
    if reading.insert(id.clone()) {
        tokio::spawn(read_sitemaps(shared.clone(), id, definition));
    }
}

async fn read_sitemaps(shared: Shared, id: CrawlId, definition: Definition) {
    let context = &shared.context;
    let reading = add_sitemaps(&*context.frontier, &context.fetcher, &context.request, &id, &definition);
    let read = tokio::select! {
        read = reading => Some(read),
        _ = context.stop.requested() => None,
    };
    match read {
        Some(Ok((added, warnings))) => {
            tracing::info!(crawl = %id, added, "sitemaps read");
            for warning in warnings {
                tracing::warn!(crawl = %id, warning, "sitemap");
            }
        }
        Some(Err(error)) => tracing::warn!(crawl = %id, %error, "adding the pages of sitemaps failed"),
        None => {}
    }
    (context.wake)();
    shared.reading_sitemaps.lock().remove(&id);
}

/// List crawls, the newest first
#[utoipa::path(get, path = "/api/crawls", operation_id = "listCrawls", tag = "crawls", params(ListQuery), responses(
    (status = OK, body = CrawlList),
))]
pub(super) async fn list(
    State(shared): State<Shared>,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<CrawlList>, Problem> {
    let (crawls, next) = crawls::list(&*shared.context.frontier, query.after.as_deref(), query.limit).await?;
    let last_end = crawls.iter().filter_map(|crawl| crawl.ended_at).max();
    let backlog = BacklogSample::take(&shared.context, &shared.backlog, last_end).await?;
    Ok(Json(CrawlList {
        crawls: crawls.into_iter().map(|crawl| view(&shared, crawl, &backlog)).collect(),
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
    State(shared): State<Shared>,
    PathParams(id): PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    let crawl = crawls::crawl(&*shared.context.frontier, &id).await?;
    let backlog = BacklogSample::take(&shared.context, &shared.backlog, crawl.ended_at).await?;
    let failed = match crawl.state.has_ended() {
        true => failed_seeds(&*shared.context.frontier, &*shared.context.trails, &crawl).await?,
        false => Vec::new(),
    };
    let failed_seeds = failed.into_iter().map(SeedFailure::from).collect();
    Ok(Json(CrawlView { failed_seeds, ..view(&shared, crawl, &backlog) }))
}

/// Pause a crawl; URLs in flight are finished
#[utoipa::path(post, path = "/api/crawls/{name}/pause", operation_id = "pauseCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView, description = "Paused"),
    (status = NOT_FOUND, description = "Unknown crawl"),
    (status = CONFLICT, description = "The crawl has ended"),
))]
pub(super) async fn pause(shared: State<Shared>, id: PathParams<String>) -> Result<Json<CrawlView>, Problem> {
    set(shared, id, CrawlState::Paused).await
}

/// Resume a paused or cancelled crawl
#[utoipa::path(post, path = "/api/crawls/{name}/resume", operation_id = "resumeCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView, description = "Running, or finished if no URL is left"),
    (status = NOT_FOUND, description = "Unknown crawl"),
    (status = CONFLICT, description = "The crawl has finished"),
))]
pub(super) async fn resume(
    shared: State<Shared>,
    id: PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    set(shared, id, CrawlState::Running).await
}

/// Cancel a crawl; URLs in flight are finished
#[utoipa::path(post, path = "/api/crawls/{name}/cancel", operation_id = "cancelCrawl", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl")), responses(
    (status = OK, body = CrawlView, description = "Cancelled"),
    (status = NOT_FOUND, description = "Unknown crawl"),
    (status = CONFLICT, description = "The crawl has finished"),
))]
pub(super) async fn cancel(
    shared: State<Shared>,
    id: PathParams<String>,
) -> Result<Json<CrawlView>, Problem> {
    set(shared, id, CrawlState::Cancelled).await
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
    State(shared): State<Shared>,
    PathParams(id): PathParams<String>,
) -> Result<Json<DeletedCrawl>, Problem> {
    let delete = async move { crawls::delete(&*shared.context.frontier, &id).await };
    Ok(Json(uncancelled(delete, "the deletion was interrupted; repeat the request").await?))
}

/// List the URLs of a crawl, all or by outcome, in the order of discovery
#[utoipa::path(get, path = "/api/crawls/{name}/urls", operation_id = "listCrawlUrls", tag = "crawls",
    params(("name" = String, Path, description = "Name of the crawl"), UrlsQuery), responses(
    (status = OK, body = CrawlUrls),
    (status = NOT_FOUND, description = "Unknown crawl"),
))]
pub(super) async fn urls(
    State(shared): State<Shared>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<UrlsQuery>,
) -> Result<Json<CrawlUrls>, Problem> {
    let UrlsQuery { outcome, after, limit } = query;
    let listed =
        crawls::urls(&*shared.context.frontier, &id, outcome.as_deref(), after.as_deref(), limit).await?;
    Ok(Json(listed))
}

async fn set(
    State(shared): State<Shared>,
    PathParams(id): PathParams<String>,
    state: CrawlState,
) -> Result<Json<CrawlView>, Problem> {
    let crawl = crawls::set_state(&*shared.context.frontier, &id, state).await?;
    (shared.context.wake)();
    let backlog = BacklogSample::take(&shared.context, &shared.backlog, crawl.ended_at).await?;
    Ok(Json(view(&shared, crawl, &backlog)))
}

fn view(shared: &Shared, crawl: Crawl, backlog: &BacklogSample) -> CrawlView {
    let rate = shared.rates.rate(&crawl);
    let to_be_indexed = shared.backlog.remaining(&crawl, backlog);
    let reading = shared.reading_sitemaps.lock().contains(&crawl.id);
    let is_idle =
        crawl.state == CrawlState::Running && crawl.counts.in_flight == 0 && crawl.counts.waiting > 0;
    let waits_for = match crawl.state {
        CrawlState::Paused => Some(format!("paused; `crawlway crawl resume {}` resumes it", crawl.id)),
        _ if is_idle => shared.context.fetcher.delayed_hosts_summary(),
        _ => None,
    };
    CrawlView::new(crawl, rate, Some(to_be_indexed), waits_for, reading)
}
