//! Operations on crawls.

use crate::{
    dto::{CrawlUrls, DeletedCrawl, FrontierEntry},
    service::{Error, ErrorKind, check_limit, excerpt},
};
use crawlway_store::{
    CrawlId, Frontier,
    frontier::{Crawl, CrawlState, EntryFilter, EntryState},
};

/// Maximum number of crawls in one list.
pub const MAX_CRAWLS: usize = 500;
/// Maximum number of URLs of a crawl in one list.
pub const MAX_URLS: usize = 1_000;

/// Crawls older than `after`, the newest first, and the pagination cursor.
pub async fn list(
    frontier: &dyn Frontier,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Crawl>, Option<String>), Error> {
    check_limit(limit, MAX_CRAWLS)?;
    let after = after.map(CrawlId::new).transpose();
    let after = after.map_err(|error| Error::invalid(error.to_string()).field("after"))?;
    let crawls = frontier.crawls(after.as_ref(), limit).await?;
    let next = crawls.last().filter(|_| crawls.len() == limit).map(|crawl| crawl.id.to_string());
    Ok((crawls, next))
}

/// Crawl by name.
pub async fn crawl(frontier: &dyn Frontier, name: &str) -> Result<Crawl, Error> {
    frontier.crawl(&CrawlId::new(name)?).await?.ok_or_else(|| missing(name))
}

/// Pauses, resumes or cancels a crawl. An ended crawl is a conflict.
pub async fn set_state(frontier: &dyn Frontier, name: &str, state: CrawlState) -> Result<Crawl, Error> {
    let before = crawl(frontier, name).await?;
    let crawl = frontier.set_state(&before.id, state).await?.ok_or_else(|| missing(name))?;
    // A crawl whose last URL was in flight when it was paused ends when it is resumed.
    let ended_by_this = state == CrawlState::Running && !before.state.has_ended();
    if crawl.state == state || ended_by_this {
        return Ok(crawl);
    }
    let hint = match crawl.state {
        CrawlState::Finished => "start it again to crawl the pages that are due again",
        CrawlState::Limited => "start it again with a higher `max_pages`, or without one",
        _ => "resume it first",
    };
    Err(Error::new(ErrorKind::Conflict, format!("crawl `{name}` is {}; {hint}", crawl.state)))
}

/// Deletes a crawl and its URLs. Its pages stay in the index.
pub async fn delete(frontier: &dyn Frontier, name: &str) -> Result<DeletedCrawl, Error> {
    let id = CrawlId::new(name)?;
    if !frontier.delete_crawl(&id).await? {
        return Err(missing(name));
    }
    Ok(DeletedCrawl { deleted: id.to_string() })
}

/// URLs of a crawl in the order of discovery: all, or those with this state or outcome (see
/// [`Counts::outcomes`](crate::dto::Counts::outcomes)).
pub async fn urls(
    frontier: &dyn Frontier,
    name: &str,
    outcome: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<CrawlUrls, Error> {
    let id = crawl(frontier, name).await?.id;
    check_limit(limit, MAX_URLS)?;
    let after = after.map(|after| {
        let invalid = || Error::invalid(format!("`{after}` is no cursor; use the `next` of a list"));
        after.parse::<u64>().map_err(|_| invalid().field("after"))
    });
    let listed = frontier.entries(&id, &filter(outcome), after.transpose()?, limit).await?;
    Ok(CrawlUrls {
        urls: listed.entries.into_iter().map(FrontierEntry::from).collect(),
        next: listed.next.map(|next| next.to_string()),
    })
}

/// Filter by state if the word is one, else by the outcome of done URLs.
fn filter(outcome: Option<&str>) -> EntryFilter {
    let state = match outcome {
        None => return EntryFilter::default(),
        Some("waiting") => EntryState::Waiting,
        Some("in_flight") => EntryState::InFlight,
        Some("done") => EntryState::Done,
        Some("dead") => EntryState::Dead,
        Some(outcome) => {
            return EntryFilter { state: Some(EntryState::Done), outcome: Some(outcome.to_owned()) };
        }
    };
    EntryFilter { state: Some(state), outcome: None }
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("there is no crawl `{}`; list the crawls to see their names", excerpt(name)))
        .field("name")
}
