//! Pages that are left out because they are to be found under another URL: the one that they name as the proper one, or
//! that their URL redirects to. They are taken in after all when nothing comes of that other URL.
//!
//! ```text
//! a ──names──▶ b ──names──▶ a          one of them is wanted after all
//! a ──names──▶ b ──redirects──▶ a      a is
//! a ──names──▶ b, which is gone        a is
//! ```

use super::Crawled;
use crawlway_store::{
    CrawlId, Frontier, StoreError,
    frontier::{Entry, EntryState},
};

/// Outcomes of URLs under which there is no page, nor under another in their place.
const NO_PAGE: &[&str] = &["gone", "refused", "not_a_page", "disallowed", "out_of_scope"];
/// The outcome of what was left out for the URL it redirects to.
const REDIRECTED: &str = "redirected";
/// Longer ways than this from one URL to the next are nobody's mistake any more.
const LONGEST_WAY: usize = 8;
/// How many pages are looked at together that were left out for one URL.
const TOGETHER: usize = 500;

/// What is known of a URL.
enum Known {
    /// It is not yet known what becomes of it, or there is a page.
    Fine,
    NoPage,
    /// It was left out for another.
    LeftOut {
        redirected: bool,
        for_url: String,
    },
}

/// Whether this is the outcome of a URL under which there is no page, nor under another in its place.
pub(in super::super) fn has_no_page(outcome: &str) -> bool {
    NO_PAGE.contains(&outcome)
}

/// Whether it is known that nothing comes of a URL in this crawl.
pub(super) async fn is_known_to_have_no_page(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    url: &str,
) -> Result<bool, StoreError> {
    Ok(matches!(stored(frontier, crawl, url).await?, Known::NoPage))
}

/// Sees to it that no page is lost by being left out, given what just happened to some URLs.
pub(super) async fn settle(frontier: &dyn Frontier, effects: &[&Crawled]) -> Result<(), StoreError> {
    for effect in effects {
        if effect.no_page {
            take_in(frontier, &effect.crawl, &effect.url).await?;
        }
        if effect.left_out_for.is_some() {
            follow(frontier, effects, &effect.crawl, &effect.url).await?;
        }
    }
    Ok(())
}

/// The same once more when a URL is settled. Two URLs that are worked on at the same time, one left out for the other, may
/// each have looked before the other was settled; whichever is settled last sees both.
pub(in super::super) async fn settled(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    url: &str,
) -> Result<(), StoreError> {
    match stored(frontier, crawl, url).await? {
        Known::Fine => Ok(()),
        Known::NoPage => take_in(frontier, crawl, url).await,
        Known::LeftOut { .. } => follow(frontier, &[], crawl, url).await,
    }
}

/// Has the pages crawled again, and this time published, that were left out for a URL of which nothing comes.
pub(super) async fn take_in(frontier: &dyn Frontier, crawl: &CrawlId, url: &str) -> Result<(), StoreError> {
    let mut of = vec![url.to_owned()];
    for _ in 0..LONGEST_WAY {
        let mut before = Vec::new();
        for url in of {
            for entry in frontier.left_out_for(crawl, &url, TOGETHER).await? {
                if entry.outcome.as_deref() == Some(REDIRECTED) {
                    // There is nothing to publish under a URL that redirects, but others may name it.
                    before.push(entry.url);
                } else {
                    frontier.insist(crawl, &entry.url).await?;
                }
            }
        }
        if before.is_empty() {
            break;
        }
        of = before;
    }
    Ok(())
}

/// Goes from a URL that was left out to the one it was left out for, and on from there.
async fn follow(
    frontier: &dyn Frontier,
    effects: &[&Crawled],
    crawl: &CrawlId,
    url: &str,
) -> Result<(), StoreError> {
    let mut way: Vec<(String, bool)> = Vec::new();
    let mut at = url.to_owned();
    for _ in 0..LONGEST_WAY {
        let known = match effects.iter().find(|other| other.crawl == *crawl && other.url == at) {
            Some(other) => of_effect(other),
            None => stored(frontier, crawl, &at).await?,
        };
        match known {
            Known::Fine => return Ok(()),
            Known::NoPage => return take_in_one(frontier, crawl, &way).await,
            Known::LeftOut { redirected, for_url } => {
                way.push((at, redirected));
                at = for_url;
            }
        }
        if let Some(start) = way.iter().position(|(url, _)| *url == at) {
            // A circle. Whoever finds it chooses the same page of it.
            let mut pages: Vec<&str> = way[start..]
                .iter()
                .filter(|(_, redirected)| !redirected)
                .map(|(url, _)| url.as_str())
                .collect();
            pages.sort_unstable();
            if let Some(first) = pages.first() {
                frontier.insist(crawl, first).await?;
            }
            return Ok(());
        }
    }
    Ok(())
}

/// The way ends where there is no page: the last page before that is wanted after all.
async fn take_in_one(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    way: &[(String, bool)],
) -> Result<(), StoreError> {
    if let Some((url, _)) = way.iter().rev().find(|(_, redirected)| !redirected) {
        frontier.insist(crawl, url).await?;
    }
    Ok(())
}

fn of_effect(effect: &Crawled) -> Known {
    match &effect.left_out_for {
        _ if effect.no_page => Known::NoPage,
        Some(url) => Known::LeftOut { redirected: effect.redirected, for_url: url.clone() },
        None => Known::Fine,
    }
}

async fn stored(frontier: &dyn Frontier, crawl: &CrawlId, url: &str) -> Result<Known, StoreError> {
    let entries = frontier.find(url).await?;
    Ok(entries.into_iter().find(|entry| entry.crawl == *crawl).map_or(Known::Fine, of_entry))
}

fn of_entry(entry: Entry) -> Known {
    let outcome = entry.outcome.as_deref().unwrap_or_default();
    match entry.state {
        EntryState::Dead => Known::NoPage,
        EntryState::Done if has_no_page(outcome) => Known::NoPage,
        EntryState::Done => match entry.canonical {
            Some(for_url) => Known::LeftOut { redirected: outcome == REDIRECTED, for_url },
            None => Known::Fine,
        },
        EntryState::Waiting | EntryState::InFlight => Known::Fine,
    }
}
