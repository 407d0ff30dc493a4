//! `/api/crawls`: starting crawls, and looking after them.

use super::asked::NewCrawl;
use crate::{
    answers::crawls as answers,
    extract::{JsonBody, PathOf, QueryOf},
    indexing::Look,
    parts::Shared,
    problem::Problem,
    shape::{Accepted, CrawlList, CrawlUrls, CrawlView, DeletedCrawl, SeedFailure},
};
use axum::{
    Json,
    extract::State,
    response::{AppendHeaders, IntoResponse},
};
use crawlway_flows::search::{Asked, Definition, add_sitemaps, begin, failed_seeds};
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
    /// At most so many, 1 to 500.
    #[serde(default = "fifty")]
    #[param(default = 50, minimum = 1, maximum = 500)]
    limit: usize,
    /// Only those older than the crawl of this name.
    after: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UrlsQuery {
    /// Only those with this outcome: one that the crawl counts, such as `published` or `gone`, or `waiting`, `in_flight`, `done`
    /// or `dead`.
    outcome: Option<String>,
    /// Only those that come after this, as `next` of the list before says.
    after: Option<String>,
    /// At most so many, 1 to 1000.
    #[serde(default = "fifty")]
    #[param(default = 50, minimum = 1, maximum = 1000)]
    limit: usize,
}

fn fifty() -> usize {
    50
}

/// Start a crawl, or go on with the one of the same name
///
/// Answered when the crawl and its seeds are durably stored. A crawl of this name goes on, on the terms that are given now:
/// a higher limit goes on with what waits, a wider scope takes in what was left out, what had failed is tried again, the
/// seeds and what is due again are fetched again. Sitemaps, if they are asked for, are read afterwards, in the background.
#[utoipa::path(post, path = "/api/crawls", operation_id = "startCrawl", tag = "crawls", request_body = NewCrawl, responses(
    (status = ACCEPTED, body = Accepted, description = "It is durably stored",
        headers(("location" = String, description = "Where to look how far it is"))),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json",
        description = "Something is wrong with it, such as a seed with an address that must not be asked; `field` says what"),
))]
pub(super) async fn make(
    State(shared): State<Shared>,
    JsonBody(asked): JsonBody<NewCrawl>,
) -> Result<impl IntoResponse, Problem> {
    asked.check_addresses(&shared.parts.inventory)?;
    let asked = asked.into_asked(shared.parts.crawl_defaults)?;
    // Not cut in half by who goes away, or by the time limit.
    let begun = tokio::spawn(start(shared, asked)).await;
    let accepted = begun.map_err(|_| Problem::internal("the crawl could not be started; ask again"))??;
    let location = AppendHeaders([(header::LOCATION, accepted.location.clone())]);
    Ok((StatusCode::ACCEPTED, location, Json(accepted)))
}

async fn start(shared: Shared, asked: Asked) -> Result<Accepted, Problem> {
    let started = begin(&*shared.parts.frontier, &*shared.parts.seen, &asked).await?;
    (shared.parts.wake)();
    let id = started.crawl.id.clone();
    if asked.definition.sitemaps {
        spawn_reading(&shared, id.clone(), asked.definition);
    }
    Ok(Accepted {
        location: format!("/api/crawls/{id}"),
        name: id.to_string(),
        new: started.new,
        added: started.added,
        again: started.again,
        recent: started.recent,
        outcomes: started.outcomes,
    })
}

/// Goes on with the sitemaps that were asked for and not read when the process ended.
pub(in crate::routes) async fn resume_sitemaps(shared: Shared) {
    let mut after = None;
    loop {
        let crawls = shared.parts.frontier.crawls(after.as_ref(), answers::MOST_CRAWLS).await;
        let Ok(crawls) = crawls else { return };
        for crawl in &crawls {
            let Ok(definition) = serde_json::from_str::<Definition>(&crawl.definition) else { continue };
            if definition.state.sitemaps_unread && crawl.state != CrawlState::Cancelled {
                spawn_reading(&shared, crawl.id.clone(), definition);
            }
        }
        after = crawls.last().map(|crawl| crawl.id.clone());
        if crawls.len() < answers::MOST_CRAWLS {
            return;
        }
    }
}

fn spawn_reading(shared: &Shared, id: CrawlId, definition: Definition) {
    let mut reading = shared.reading_sitemaps.lock();
    if reading.insert(id.clone()) {
        tokio::spawn(read_sitemaps(shared.clone(), id, definition));
    }
}

async fn read_sitemaps(shared: Shared, id: CrawlId, definition: Definition) {
    let parts = &shared.parts;
    let reading = add_sitemaps(&*parts.frontier, &parts.fetcher, &parts.request, &id, &definition);
    let read = tokio::select! {
        read = reading => Some(read),
        _ = parts.stop.requested() => None,
    };
    match read {
        Some(Ok((added, troubles))) => {
            tracing::info!(crawl = %id, added, "sitemaps read");
            for trouble in troubles {
                tracing::warn!(crawl = %id, trouble, "sitemap");
            }
        }
        Some(Err(error)) => tracing::warn!(crawl = %id, %error, "pages of sitemaps could not be added"),
        None => {}
    }
    (parts.wake)();
    shared.reading_sitemaps.lock().remove(&id);
}

/// List crawls, the newest first
#[utoipa::path(get, path = "/api/crawls", operation_id = "listCrawls", tag = "crawls", params(ListQuery), responses(
    (status = OK, body = CrawlList),
))]
pub(super) async fn list(
    State(shared): State<Shared>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<CrawlList>, Problem> {
    let (crawls, next) = answers::list(&*shared.parts.frontier, query.after.as_deref(), query.limit).await?;
    let last_end = crawls.iter().filter_map(|crawl| crawl.ended_at).max();
    let look = Look::at(&shared.parts, &shared.indexing, last_end).await?;
    Ok(Json(CrawlList {
        crawls: crawls.into_iter().map(|crawl| view(&shared, crawl, &look)).collect(),
        next,
    }))
}

/// How far a crawl is: its state, counts by outcome, rate and time left
#[utoipa::path(get, path = "/api/crawls/{name}", operation_id = "getCrawl", tag = "crawls",
    params(("name" = String, Path, description = "The crawl's name")), responses(
    (status = OK, body = CrawlView),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such crawl"),
))]
pub(super) async fn one(
    State(shared): State<Shared>,
    PathOf(id): PathOf<String>,
) -> Result<Json<CrawlView>, Problem> {
    let crawl = answers::crawl(&*shared.parts.frontier, &id).await?;
    let look = Look::at(&shared.parts, &shared.indexing, crawl.ended_at).await?;
    let failed = match crawl.state.has_ended() {
        true => failed_seeds(&*shared.parts.frontier, &*shared.parts.trails, &crawl).await?,
        false => Vec::new(),
    };
    let failed_seeds = failed.into_iter().map(SeedFailure::from).collect();
    Ok(Json(CrawlView { failed_seeds, ..view(&shared, crawl, &look) }))
}

/// Pause a crawl: nothing more is taken up, what is in flight is finished
#[utoipa::path(post, path = "/api/crawls/{name}/pause", operation_id = "pauseCrawl", tag = "crawls",
    params(("name" = String, Path, description = "The crawl's name")), responses(
    (status = OK, body = CrawlView, description = "It is paused"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such crawl"),
    (status = CONFLICT, body = Problem, content_type = "application/problem+json", description = "It has ended"),
))]
pub(super) async fn pause(shared: State<Shared>, id: PathOf<String>) -> Result<Json<CrawlView>, Problem> {
    set(shared, id, CrawlState::Paused).await
}

/// Let a crawl that was paused or cancelled run again
#[utoipa::path(post, path = "/api/crawls/{name}/resume", operation_id = "resumeCrawl", tag = "crawls",
    params(("name" = String, Path, description = "The crawl's name")), responses(
    (status = OK, body = CrawlView, description = "It runs, or has nothing left to do"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such crawl"),
    (status = CONFLICT, body = Problem, content_type = "application/problem+json", description = "It has finished"),
))]
pub(super) async fn resume(shared: State<Shared>, id: PathOf<String>) -> Result<Json<CrawlView>, Problem> {
    set(shared, id, CrawlState::Running).await
}

/// End a crawl before it is done; what is in flight is finished
#[utoipa::path(post, path = "/api/crawls/{name}/cancel", operation_id = "cancelCrawl", tag = "crawls",
    params(("name" = String, Path, description = "The crawl's name")), responses(
    (status = OK, body = CrawlView, description = "It is cancelled"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such crawl"),
    (status = CONFLICT, body = Problem, content_type = "application/problem+json", description = "It has finished"),
))]
pub(super) async fn cancel(shared: State<Shared>, id: PathOf<String>) -> Result<Json<CrawlView>, Problem> {
    set(shared, id, CrawlState::Cancelled).await
}

/// Delete a crawl with all that is known of its URLs
///
/// The pages that it has brought stay in the index. What is in flight of it is given up. A crawl that is started under the same
/// name is a new one.
#[utoipa::path(delete, path = "/api/crawls/{name}", operation_id = "deleteCrawl", tag = "crawls",
    params(("name" = String, Path, description = "The crawl's name")), responses(
    (status = OK, body = DeletedCrawl, description = "It is deleted"),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such crawl"),
))]
pub(super) async fn delete(
    State(shared): State<Shared>,
    PathOf(id): PathOf<String>,
) -> Result<Json<DeletedCrawl>, Problem> {
    // Seen through even if the caller goes away.
    let deleting = tokio::spawn(async move { answers::delete(&*shared.parts.frontier, &id).await });
    Ok(Json(deleting.await.map_err(|_| Problem::internal("deleting broke off; ask again"))??))
}

/// List the URLs of a crawl, all or by what became of them, in the order in which they were found
#[utoipa::path(get, path = "/api/crawls/{name}/urls", operation_id = "listCrawlUrls", tag = "crawls",
    params(("name" = String, Path, description = "The crawl's name"), UrlsQuery), responses(
    (status = OK, body = CrawlUrls),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such crawl"),
))]
pub(super) async fn urls(
    State(shared): State<Shared>,
    PathOf(id): PathOf<String>,
    QueryOf(query): QueryOf<UrlsQuery>,
) -> Result<Json<CrawlUrls>, Problem> {
    let UrlsQuery { outcome, after, limit } = query;
    let listed =
        answers::urls(&*shared.parts.frontier, &id, outcome.as_deref(), after.as_deref(), limit).await?;
    Ok(Json(listed))
}

async fn set(
    State(shared): State<Shared>,
    PathOf(id): PathOf<String>,
    state: CrawlState,
) -> Result<Json<CrawlView>, Problem> {
    let crawl = answers::set_state(&*shared.parts.frontier, &id, state).await?;
    (shared.parts.wake)();
    let look = Look::at(&shared.parts, &shared.indexing, crawl.ended_at).await?;
    Ok(Json(view(&shared, crawl, &look)))
}

fn view(shared: &Shared, crawl: Crawl, look: &Look) -> CrawlView {
    let pace = shared.rates.pace(&crawl);
    let to_be_indexed = shared.indexing.left(&crawl, look);
    let reading = shared.reading_sitemaps.lock().contains(&crawl.id);
    let waits = crawl.state == CrawlState::Running && crawl.counts.in_flight == 0 && crawl.counts.waiting > 0;
    let waits_for = match crawl.state {
        CrawlState::Paused => Some(format!("paused: `crawlway crawl resume {}` lets it go on", crawl.id)),
        _ if waits => shared.parts.fetcher.waits_for(),
        _ => None,
    };
    CrawlView::new(crawl, pace, Some(to_be_indexed), waits_for, reading)
}
