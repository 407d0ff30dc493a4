//! Pages that are indexed under another URL: their canonical URL, or the target of a redirect. If that URL turns out to
//! have no page, they are reinstated: crawled again, and published under their own URL.
//!
//! ```text
//! a ──canonical──▶ b ──canonical──▶ a     one of them is reinstated
//! a ──canonical──▶ b ──redirect───▶ a     a is reinstated
//! a ──canonical──▶ b, which is gone       a is reinstated
//! ```

use super::effects::CrawlEffect;
use crawlway_store::{
    CrawlId, Frontier, StoreError,
    frontier::{Entry, EntryState},
};

/// Outcomes of URLs that have no page, neither their own nor one under another URL.
const NO_PAGE: &[&str] = &["gone", "refused", "not_a_page", "disallowed", "out_of_scope"];
/// Outcome of URLs that redirect to another.
const REDIRECTED: &str = "redirected";
/// Maximum length of a chain of redirects and canonical URLs that is followed to find a cycle.
const MAX_CHAIN: usize = 8;
/// Maximum number of pages reinstated per URL.
const MAX_REINSTATED: usize = 500;

/// State of a URL in its chain.
enum Link {
    /// It has a page, or is not crawled yet.
    Page,
    NoPage,
    /// Its page is indexed under another URL.
    Elsewhere {
        redirected: bool,
        url: String,
    },
}

/// Whether a URL with this outcome has no page, neither its own nor one under another URL.
pub(in super::super) fn has_no_page(outcome: &str) -> bool {
    NO_PAGE.contains(&outcome)
}

/// Whether a URL of this crawl is known to have no page.
pub(super) async fn has_known_no_page(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    url: &str,
) -> Result<bool, StoreError> {
    Ok(matches!(stored_link(frontier, crawl, url).await?, Link::NoPage))
}

/// Reinstates pages after these URLs were crawled.
pub(super) async fn reinstate_after(
    frontier: &dyn Frontier,
    effects: &[&CrawlEffect],
) -> Result<(), StoreError> {
    for effect in effects {
        if effect.no_page {
            reinstate(frontier, &effect.crawl, &effect.url).await?;
        }
        if effect.canonical.is_some() {
            follow_chain(frontier, effects, &effect.crawl, &effect.url).await?;
        }
    }
    Ok(())
}

/// Reinstates pages after a URL was settled. Two URLs of a chain that are crawled concurrently may each have missed the
/// result of the other; the one that is settled last sees both.
pub(in super::super) async fn reinstate_settled(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    url: &str,
) -> Result<(), StoreError> {
    match stored_link(frontier, crawl, url).await? {
        Link::Page => Ok(()),
        Link::NoPage => reinstate(frontier, crawl, url).await,
        Link::Elsewhere { .. } => follow_chain(frontier, &[], crawl, url).await,
    }
}

/// Reinstates the pages whose canonical URL is this one, which has no page.
pub(super) async fn reinstate(frontier: &dyn Frontier, crawl: &CrawlId, url: &str) -> Result<(), StoreError> {
    let mut targets = vec![url.to_owned()];
    for _ in 0..MAX_CHAIN {
        let mut redirects = Vec::new();
        for target in targets {
            for entry in frontier.canonicalized_to(crawl, &target, MAX_REINSTATED).await? {
                if entry.outcome.as_deref() == Some(REDIRECTED) {
                    // A redirect has no page of its own, but may be the canonical URL of others.
                    redirects.push(entry.url);
                } else {
                    frontier.recrawl_ignoring_canonical(crawl, &entry.url).await?;
                }
            }
        }
        if redirects.is_empty() {
            break;
        }
        targets = redirects;
    }
    Ok(())
}

/// Follows the chain from a URL, and reinstates a page of it if it ends without a page or in a cycle.
async fn follow_chain(
    frontier: &dyn Frontier,
    effects: &[&CrawlEffect],
    crawl: &CrawlId,
    url: &str,
) -> Result<(), StoreError> {
    // URLs of the chain, and whether they redirect.
    let mut chain: Vec<(String, bool)> = Vec::new();
    let mut current = url.to_owned();
    for _ in 0..MAX_CHAIN {
        let link = match effects.iter().find(|other| other.crawl == *crawl && other.url == current) {
            Some(effect) => effect_link(effect),
            None => stored_link(frontier, crawl, &current).await?,
        };
        match link {
            Link::Page => return Ok(()),
            Link::NoPage => {
                let last = chain.iter().rev().find(|(_, redirected)| !redirected);
                return recrawl_ignoring_canonical(frontier, crawl, last).await;
            }
            Link::Elsewhere { redirected, url } => {
                chain.push((current, redirected));
                current = url;
            }
        }
        if let Some(start) = chain.iter().position(|(url, _)| *url == current) {
            // A cycle. The smallest URL, so that every worker chooses the same one.
            let smallest = chain[start..].iter().filter(|(_, redirected)| !redirected).min();
            return recrawl_ignoring_canonical(frontier, crawl, smallest).await;
        }
    }
    Ok(())
}

async fn recrawl_ignoring_canonical(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    page: Option<&(String, bool)>,
) -> Result<(), StoreError> {
    if let Some((url, _)) = page {
        frontier.recrawl_ignoring_canonical(crawl, url).await?;
    }
    Ok(())
}

fn effect_link(effect: &CrawlEffect) -> Link {
    match &effect.canonical {
        _ if effect.no_page => Link::NoPage,
        Some(url) => Link::Elsewhere { redirected: effect.redirected, url: url.clone() },
        None => Link::Page,
    }
}

async fn stored_link(frontier: &dyn Frontier, crawl: &CrawlId, url: &str) -> Result<Link, StoreError> {
    let entries = frontier.find(url).await?;
    Ok(entries.into_iter().find(|entry| entry.crawl == *crawl).map_or(Link::Page, entry_link))
}

fn entry_link(entry: Entry) -> Link {
    let outcome = entry.outcome.as_deref().unwrap_or_default();
    match entry.state {
        EntryState::Dead => Link::NoPage,
        EntryState::Done if has_no_page(outcome) => Link::NoPage,
        EntryState::Done => match entry.canonical {
            Some(url) => Link::Elsewhere { redirected: outcome == REDIRECTED, url },
            None => Link::Page,
        },
        EntryState::Waiting | EntryState::InFlight => Link::Page,
    }
}
