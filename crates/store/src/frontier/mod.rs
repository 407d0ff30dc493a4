//! The frontier: URLs to be crawled, ordered by when their hosts may be requested.
//!
//! The frontier is a store instead of a queue, because in a FIFO queue the backlog of one slow host would delay all
//! others. It keeps each URL of a crawl once, whatever its state, so that adding is idempotent.
//!
//! ```text
//! add ─▶ pending ─▶ in flight ─▶ done ──(reopen)──▶ pending
//!           ▲            │ ├─▶ dead ──(replay)──▶ pending
//!           └────────────┘ └─ retry, defer, lost worker
//! ```
//!
//! A lost worker is not a failed attempt: it makes the URL [suspect](crate::suspects). Only a URL that crashes its
//! workers in solo runs ([`Frontier::mark_solo`]) becomes dead by it.

mod crawl;
mod entry;

pub use crawl::{Crawl, CrawlCounts, CrawlId, CrawlIdError, CrawlState, NewCrawl, NewSettings};
pub use entry::{
    AddOutcome, ClaimedUrl, DeadUrl, DeadUrls, Entries, Entry, EntryFilter, EntryState, NewUrl, PageFacts,
    PageLinks, Receipt, Reopen, TOO_MANY_PENDING, UrlBudget, UrlSettleOutcome, UrlVerdict, Validators,
};

use crate::{StoreError, Timestamp};
use std::{fmt::Debug, time::Duration};

/// Policy of the frontier, the same for all URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrontierPolicy {
    /// Lease of a claimed URL.
    pub lease: Duration,
    /// Maximum number of attempts; when the last one fails the URL is dead.
    pub max_attempts: u32,
    /// Maximum number of crashes in solo runs; then the URL is dead.
    pub max_solo_crashes: u32,
    /// Maximum number of pending URLs of a crawl, beyond which discovered URLs are not added; see
    /// [`max_pending_of_crawl`](FrontierPolicy::max_pending_of_crawl).
    pub max_pending: u64,
    /// Maximum number of pending URLs of one host of a crawl.
    pub max_pending_per_host: u64,
}

/// Maximum number of pending URLs for each page of the page limit.
const MAX_PENDING_PER_PAGE: u64 = 100;

/// Lower bound of the maximum that follows from a page limit.
const MIN_MAX_PENDING: u64 = 10_000;

impl FrontierPolicy {
    /// Maximum number of pending URLs of a crawl with this page limit. A small crawl would never fetch most of them.
    pub fn max_pending_of_crawl(&self, max_pages: Option<u64>) -> u64 {
        let needed = max_pages.map(|pages| pages.saturating_mul(MAX_PENDING_PER_PAGE).max(MIN_MAX_PENDING));
        needed.map_or(self.max_pending, |needed| needed.min(self.max_pending))
    }
}

impl Default for FrontierPolicy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            max_attempts: 5,
            max_solo_crashes: 3,
            max_pending: 10_000_000,
            max_pending_per_host: 1_000_000,
        }
    }
}

/// Frontier: the URLs of all crawls with their states. Shared by all workers.
///
/// A batch is answered in order, one answer per element. Every call is a transaction: atomic, and durable when it
/// returns. Its cost grows with the logarithm of the number of stored URLs, its memory with the URLs in flight.
#[async_trait::async_trait]
pub trait Frontier: Debug + Send + Sync {
    /// The policy that the frontier was opened with.
    fn policy(&self) -> FrontierPolicy;

    /// Creates a crawl, running and empty. An existing crawl with this id is unchanged. Returns the crawl and whether it
    /// is new.
    async fn open_crawl(&self, crawl: &NewCrawl) -> Result<(Crawl, bool), StoreError>;

    /// The crawl with this id.
    async fn crawl(&self, id: &CrawlId) -> Result<Option<Crawl>, StoreError>;

    /// Up to `max` crawls, newest first, after (that is, older than) this one.
    async fn crawls(&self, after: Option<&CrawlId>, max: usize) -> Result<Vec<Crawl>, StoreError>;

    /// Pauses, resumes or cancels a crawl. Returns the updated crawl; `None` for an unknown one. A finished or limited
    /// crawl is unchanged, and so is a cancelled one unless it is set running.
    ///
    /// Crawls finish by themselves: setting [`CrawlState::Finished`] or [`CrawlState::Limited`] is
    /// [`StoreError::Invalid`].
    async fn set_state(&self, id: &CrawlId, state: CrawlState) -> Result<Option<Crawl>, StoreError>;

    /// Replaces the settings of a crawl and increments its revision. Returns the updated crawl; `None` if the crawl is
    /// unknown or its revision is not the expected one. A raised page limit sets a limited crawl running; a page limit
    /// that is used up ends a running one.
    async fn update_settings(
        &self,
        id: &CrawlId,
        settings: &NewSettings,
    ) -> Result<Option<Crawl>, StoreError>;

    /// Renames a crawl. Returns `false` if the crawl is unknown or the new id is taken.
    async fn rename_crawl(&self, id: &CrawlId, to: &CrawlId) -> Result<bool, StoreError>;

    /// Deletes a crawl with all its URLs, in steps. Returns whether it existed. Claims of its URLs are fenced. A crawl
    /// created later under the same id is a new one.
    async fn delete_crawl(&self, id: &CrawlId) -> Result<bool, StoreError>;

    /// Makes URLs of a crawl pending again and resets their attempts. Sets the crawl running if it then has pending
    /// URLs, unless it is paused or its page limit is used up. Returns the number of reopened URLs.
    async fn reopen(&self, id: &CrawlId, which: &Reopen) -> Result<u64, StoreError>;

    /// Adds URLs to a crawl, in this order. A known URL is unchanged. A new one sets a finished crawl running, or makes
    /// it limited if its page limit is used up.
    ///
    /// While the number of pending URLs is at the limits of the policy, new URLs are not added, except those with
    /// [`NewUrl::ignore_limit`]. Concurrent callers may each exceed the limits by one batch.
    ///
    /// An unknown crawl is [`StoreError::Invalid`].
    async fn add(&self, crawl: &CrawlId, urls: &[NewUrl]) -> Result<Vec<AddOutcome>, StoreError>;

    /// Claims up to `max` due URLs, from the hosts that have waited longest, with at most `per_host` URLs in flight for
    /// each host of a crawl; within a host in the order in which they became due.
    ///
    /// Only running crawls take part, each with no more URLs than its page limit less those fetched and in flight.
    /// URLs whose lease was lost come first, and count as more than one of the `max`, see [`crate::suspects`]. After an
    /// outage of the store no lease counts as lost before its holder had the chance to extend it.
    async fn claim_next(&self, max: usize, per_host: u32) -> Result<Vec<ClaimedUrl>, StoreError>;

    /// When the next pending URL of a running crawl is due. Until then nothing can be claimed unless a URL is added or
    /// settled. A time in the past means now.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Settles claimed URLs. `None` means fenced: the lease was lost and the URL was claimed again, so that the verdict
    /// had no effect. A verdict after the end of the lease counts if the URL was not claimed again.
    ///
    /// A crawl without pending URLs and URLs in flight becomes finished. A crawl at its page limit becomes limited, or
    /// finished if no URLs are left. The same holds if a lost worker ends its last URL.
    async fn settle(
        &self,
        endings: &[(Receipt, UrlVerdict)],
    ) -> Result<Vec<Option<UrlSettleOutcome>>, StoreError>;

    /// Renews the lease of each claim. Returns whether each was still held.
    async fn extend(&self, receipts: &[Receipt]) -> Result<Vec<bool>, StoreError>;

    /// Marks a claimed URL, durably, as running solo until it is settled. Returns whether the claim was still held.
    /// A lost worker then counts as a solo crash; after [`FrontierPolicy::max_solo_crashes`] of them the URL is dead. An
    /// expired lease counts too, since a crashed worker on another machine cannot be told from a frozen one.
    async fn mark_solo(&self, receipt: Receipt) -> Result<bool, StoreError>;

    /// Ends all leases at once, as if all workers were lost. Returns how many. Only for a caller that is the sole user
    /// of the frontier.
    async fn reclaim_all(&self) -> Result<u64, StoreError>;

    /// Makes a URL of a crawl pending, whatever its state, with [`NewUrl::ignore_canonical`] set. Returns `false`, without effect,
    /// if it was set already. A claim of the URL is fenced. A finished crawl runs again, unless its page limit is used
    /// up.
    async fn recrawl_ignoring_canonical(&self, crawl: &CrawlId, url: &str) -> Result<bool, StoreError>;

    /// Entries of a URL in all crawls, newest crawl first.
    async fn find(&self, url: &str) -> Result<Vec<Entry>, StoreError>;

    /// The most recently stored [`PageFacts::links`] of a URL in any crawl; `None` if there are none.
    async fn links(&self, url: &str) -> Result<Option<String>, StoreError>;

    /// Up to `max` pages of a crawl with stored links, in the order in which their URLs were added, after the cursor.
    async fn page_links(&self, crawl: &CrawlId, after: u64, max: usize)
    -> Result<Vec<PageLinks>, StoreError>;

    /// Up to `max` URLs of a crawl that match the filter, in the order in which they were added, after the cursor
    /// [`Entries::next`]. Empty for an unknown crawl.
    async fn entries(
        &self,
        crawl: &CrawlId,
        filter: &EntryFilter,
        after: Option<u64>,
        max: usize,
    ) -> Result<Entries, StoreError>;

    /// Up to `max` done URLs of a crawl that were skipped in favour of this canonical URL ([`PageFacts::canonical`]) and
    /// do not have [`NewUrl::ignore_canonical`] set, in the order in which they were added.
    async fn canonicalized_to(
        &self,
        crawl: &CrawlId,
        url: &str,
        max: usize,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Up to `max` dead URLs of one crawl or of all, oldest first, after the cursor [`DeadUrls::next`]. The cursor stays
    /// valid if its URL is replayed or dropped.
    async fn dead(
        &self,
        crawl: Option<&CrawlId>,
        after: Option<&str>,
        max: usize,
    ) -> Result<DeadUrls, StoreError>;

    /// Replays the dead URLs with these item ids: makes them pending, resets their attempts and counts the replay. Their
    /// finished crawls run again if their page limit allows it. Returns which ids were dead.
    async fn replay(&self, items: &[String]) -> Result<Vec<bool>, StoreError>;

    /// Drops the dead URLs with these item ids; they count as done from then on. Returns which ids were dead.
    async fn drop_dead_letters(&self, items: &[String]) -> Result<Vec<bool>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_limit_bounds_the_pending_urls() {
        let policy = FrontierPolicy { max_pending: 1_000_000, ..FrontierPolicy::default() };
        assert_eq!(policy.max_pending_of_crawl(None), 1_000_000);
        assert_eq!(policy.max_pending_of_crawl(Some(50)), 10_000, "the lower bound");
        assert_eq!(policy.max_pending_of_crawl(Some(5_000)), 500_000);
        assert_eq!(policy.max_pending_of_crawl(Some(u64::MAX)), 1_000_000);
        let small = FrontierPolicy { max_pending: 3, ..policy };
        assert_eq!(small.max_pending_of_crawl(Some(50)), 3);
    }
}
