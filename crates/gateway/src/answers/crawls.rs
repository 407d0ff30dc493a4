//! What is answered about crawls, from the frontier.

use crate::{
    problem::Problem,
    shape::{CrawlUrls, DeletedCrawl, FrontierEntry},
};
use crawlway_store::{
    CrawlId, Frontier,
    frontier::{Crawl, CrawlState, EntryFilter, EntryState},
};

/// The most crawls in one list.
pub const MOST_CRAWLS: usize = 500;
/// The most URLs of a crawl in one list.
pub const MOST_URLS: usize = 1_000;

/// The newest crawls first, up to `limit` that are older than `after`, and where the list goes on.
pub async fn list(
    frontier: &dyn Frontier,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<Crawl>, Option<String>), Problem> {
    if limit == 0 || limit > MOST_CRAWLS {
        return Err(Problem::invalid(format!("expected 1 to {MOST_CRAWLS}")).field("limit"));
    }
    let after = after.map(CrawlId::new).transpose();
    let after = after.map_err(|error| Problem::invalid(error.to_string()).field("after"))?;
    let crawls = frontier.crawls(after.as_ref(), limit).await?;
    let next = crawls.last().filter(|_| crawls.len() == limit).map(|crawl| crawl.id.to_string());
    Ok((crawls, next))
}

/// The crawl of this name.
pub async fn crawl(frontier: &dyn Frontier, name: &str) -> Result<Crawl, Problem> {
    frontier.crawl(&CrawlId::new(name)?).await?.ok_or_else(|| missing(name))
}

/// Pauses, resumes or cancels a crawl. One that has ended already is a conflict.
pub async fn set_state(frontier: &dyn Frontier, name: &str, state: CrawlState) -> Result<Crawl, Problem> {
    let before = crawl(frontier, name).await?;
    let crawl = frontier.set_state(&before.id, state).await?.ok_or_else(|| missing(name))?;
    // One whose last URL was in flight when it was paused ends by being resumed.
    let ended_by_this = state == CrawlState::Running && !before.state.has_ended();
    if crawl.state == state || ended_by_this {
        return Ok(crawl);
    }
    let what = match crawl.state {
        CrawlState::Finished => "start it again to crawl what is due again",
        CrawlState::Limited => "start it again with a higher `max_pages`, or with none",
        _ => "resume it first",
    };
    Err(Problem::conflict(format!("crawl `{name}` is {}; {what}", crawl.state)))
}

/// Deletes a crawl with all that is known of its URLs. Pages that it has brought stay in the index.
pub async fn delete(frontier: &dyn Frontier, name: &str) -> Result<DeletedCrawl, Problem> {
    let id = CrawlId::new(name)?;
    if !frontier.delete_crawl(&id).await? {
        return Err(missing(name));
    }
    Ok(DeletedCrawl { deleted: id.to_string() })
}

/// URLs of a crawl in the order in which they were found, up to `limit` after `after`: all, or those with this outcome, which is
/// one of [`Counts::outcomes`](crate::shape::Counts) or a state.
pub async fn urls(
    frontier: &dyn Frontier,
    name: &str,
    outcome: Option<&str>,
    after: Option<&str>,
    limit: usize,
) -> Result<CrawlUrls, Problem> {
    let id = crawl(frontier, name).await?.id;
    if limit == 0 || limit > MOST_URLS {
        return Err(Problem::invalid(format!("expected 1 to {MOST_URLS}")).field("limit"));
    }
    let after = after.map(|after| {
        let wrong = || Problem::invalid(format!("`{after}` is no place in the list; give the `next` of one"));
        after.parse::<u64>().map_err(|_| wrong().field("after"))
    });
    let listed = frontier.entries(&id, &filter(outcome), after.transpose()?, limit).await?;
    Ok(CrawlUrls {
        urls: listed.entries.into_iter().map(FrontierEntry::from).collect(),
        next: listed.next.map(|next| next.to_string()),
    })
}

/// A state where the word is one, else an outcome of what is done.
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

fn missing(name: &str) -> Problem {
    let name: String = name.chars().take(200).collect();
    Problem::not_found(format!("there is no crawl `{name}`; list the crawls to see those there are"))
        .field("name")
}
