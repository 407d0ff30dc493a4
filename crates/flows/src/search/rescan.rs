//! Rescan after a scope change: stored links of crawled pages are selected again under the new scope.

use super::{
    Definition,
    crawl::{OUT_OF_SCOPE, follow_stored},
    scope::Scope,
};
use crawlway_clock::Timestamp;
use crawlway_store::{
    CrawlId, Frontier, StoreError,
    frontier::{AddOutcome, Reopen},
};

/// Page size of the scan.
const PAGE_SIZE: usize = 200;

/// Adds the stored links of all crawled pages that are in the scope now, and reopens URLs that were out of scope and pages
/// without stored links. Returns the number of new and reopened URLs.
pub(super) async fn rescan(
    frontier: &dyn Frontier,
    crawl: &CrawlId,
    definition: &Definition,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let scope = Scope::new(definition);
    let mut pending = frontier.reopen(crawl, &Reopen::Outcome(OUT_OF_SCOPE.to_owned())).await?;
    let mut after = 0;
    loop {
        let pages = frontier.page_links(crawl, after, PAGE_SIZE).await?;
        let Some(last) = pages.last() else { break };
        after = last.cursor;
        let links: Vec<_> = pages.iter().flat_map(|page| follow_stored(page, &scope, now)).collect();
        let answers = frontier.add(crawl, &links).await?;
        pending += answers.iter().filter(|answer| **answer == AddOutcome::New).count() as u64;
    }
    pending += frontier.reopen(crawl, &Reopen::WithoutLinks).await?;
    Ok(pending)
}
