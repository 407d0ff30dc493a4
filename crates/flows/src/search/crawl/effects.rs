//! Steps after the publish: store links, remove pages from the index, mark URLs as seen.

use super::{CrawlStage, CrawlStep, canonical};
use crawlway_clock::Timestamp;
use crawlway_fetch::MemoryReservation;
use crawlway_flow::{EffectError, fail};
use crawlway_store::{CrawlId, frontier::NewUrl, seen::SeenUrl};
use std::collections::HashMap;

/// Effect of a crawled page.
#[derive(Debug)]
pub(in super::super) struct CrawlEffect {
    pub(super) crawl: CrawlId,
    pub(super) url: String,
    /// Time of the fetch.
    pub(super) at: Timestamp,
    /// URLs for the frontier.
    pub(super) links: Vec<NewUrl>,
    /// URL under which the page is indexed instead: its canonical URL, or the target of a redirect.
    pub(super) canonical: Option<String>,
    /// Whether the URL redirects to `canonical`.
    pub(super) redirected: bool,
    /// Whether the URL has no page, so that it cannot be the canonical URL of another.
    pub(super) no_page: bool,
    /// URLs to remove from the index.
    pub(super) removed: Vec<String>,
    pub(super) seen: Vec<SeenUrl>,
    /// Memory share of the message, released after these steps.
    pub(super) share: Option<MemoryReservation>,
}

impl CrawlEffect {
    pub(super) fn new(crawl: CrawlId, url: String, at: Timestamp) -> Self {
        Self {
            crawl,
            url,
            at,
            links: Vec::new(),
            canonical: None,
            redirected: false,
            no_page: false,
            removed: Vec::new(),
            seen: Vec::new(),
            share: None,
        }
    }
}

impl CrawlStage {
    /// Links are stored before URLs are marked as seen: a crash in between repeats a page, and loses no link.
    pub(super) async fn apply(&self, effects: &[&CrawlEffect]) -> Result<(), EffectError> {
        self.store_links(effects).await?;
        canonical::reinstate_after(&*self.frontier, effects).await?;
        self.remove_from_index(effects).await?;
        fail::passed("crawl", CrawlStep::LinksStored.name());
        let seen: Vec<SeenUrl> = effects.iter().flat_map(|effect| effect.seen.iter().cloned()).collect();
        self.seen.mark(&seen).await?;
        fail::passed("crawl", CrawlStep::MarkedSeen.name());
        Ok(())
    }

    async fn store_links(&self, effects: &[&CrawlEffect]) -> Result<(), EffectError> {
        let mut by_crawl: HashMap<&CrawlId, Vec<NewUrl>> = HashMap::new();
        for effect in effects {
            by_crawl.entry(&effect.crawl).or_default().extend(effect.links.iter().cloned());
        }
        for (crawl, links) in by_crawl {
            self.frontier.add(crawl, &links).await?;
        }
        Ok(())
    }

    /// Removes pages from the index, if this process has it: messages of the queue cannot express a removal.
    async fn remove_from_index(&self, effects: &[&CrawlEffect]) -> Result<(), EffectError> {
        let Some(index) = &self.index else { return Ok(()) };
        let urls: Vec<String> = effects.iter().flat_map(|effect| effect.removed.iter().cloned()).collect();
        // The earliest time keeps every page that was crawled again and published in the meantime.
        let removed_at =
            effects.iter().filter(|effect| !effect.removed.is_empty()).map(|effect| effect.at).min();
        if removed_at.is_some() {
            index.remove(&urls, removed_at).await?;
        }
        Ok(())
    }
}
