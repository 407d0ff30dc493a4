//! The frontier: which URLs are still to be crawled, ordered by when their hosts may be asked.
//!
//! A store and not a queue, because a queue is first in, first out, and the backlog of one slow host would hold
//! up all others. It knows each URL of a crawl once, whatever became of it, so that adding is idempotent.
//!
//! ```text
//! add ─▶ waiting ─▶ in flight ─▶ done ──(reopen)──▶ waiting
//!           ▲            │ ├─▶ dead ──(replay)──▶ waiting
//!           └────────────┘ └─ retry, defer, a lost worker
//! ```
//!
//! A lost worker is no failed attempt: it makes the URL [suspect](crate::suspects), and only what takes its
//! worker with it while that runs nothing else ([`Frontier::alone`]) ends dead by it.

mod crawl;
mod entry;

pub use crawl::{Crawl, CrawlCounts, CrawlId, CrawlIdError, CrawlState, NewCrawl, NewTerms};
pub use entry::{
    Added, Budget, DeadUrl, DeadUrls, Ending, Entries, Entry, EntryFilter, EntryState, NewUrl, PageFacts,
    PageLinks, Receipt, Reopen, SettledAs, TOO_MANY_WAITING, Taken, Validators,
};

use crate::{StoreError, Timestamp};
use std::{fmt::Debug, time::Duration};

/// How a frontier treats all URLs alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrontierPolicy {
    /// How long a URL is its worker's before it comes back.
    pub lease: Duration,
    /// How many attempts a URL gets; when the last one fails it is dead.
    pub max_attempts: u32,
    /// How many processes a URL may take with it while they run nothing else; then it is dead.
    pub max_solo_crashes: u32,
    /// How many URLs of one crawl may wait before those that are found are left out; see
    /// [`most_waiting`](FrontierPolicy::most_waiting).
    pub most_waiting: u64,
    /// The same for one host of a crawl.
    pub most_waiting_of_host: u64,
}

/// A crawl with a page limit keeps no more URLs waiting than so many for each page,
const WAITING_PER_PAGE: u64 = 100;
/// and so many in any case.
const WAITING_IN_ANY_CASE: u64 = 10_000;

impl FrontierPolicy {
    /// How many URLs of a crawl with this page limit may wait. Most of those of a small one would never be fetched.
    pub fn most_waiting(&self, max_pages: Option<u64>) -> u64 {
        let needed = max_pages.map(|most| most.saturating_mul(WAITING_PER_PAGE).max(WAITING_IN_ANY_CASE));
        needed.map_or(self.most_waiting, |needed| needed.min(self.most_waiting))
    }
}

impl Default for FrontierPolicy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            max_attempts: 5,
            max_solo_crashes: 3,
            most_waiting: 10_000_000,
            most_waiting_of_host: 1_000_000,
        }
    }
}

/// The URLs of all crawls and what became of them. Shared by all workers.
///
/// Batches are answered in order, one answer per element. Every call is a transaction: it happens as a whole, and
/// what it did survives the end of the process once it has returned. Costs grow with the logarithm of what is
/// stored, and memory with what is in flight.
#[async_trait::async_trait]
pub trait Frontier: Debug + Send + Sync {
    /// The policy it was opened with.
    fn policy(&self) -> FrontierPolicy;

    /// Makes a crawl, running and empty, unless one of this id exists, which then stays as it is. Answers the
    /// crawl as it is now, and whether it is new.
    async fn open_crawl(&self, crawl: &NewCrawl) -> Result<(Crawl, bool), StoreError>;

    /// The crawl of this id.
    async fn crawl(&self, id: &CrawlId) -> Result<Option<Crawl>, StoreError>;

    /// The crawls, newest first, up to so many after (that is, older than) this one.
    async fn crawls(&self, after: Option<&CrawlId>, most: usize) -> Result<Vec<Crawl>, StoreError>;

    /// Pauses, resumes or cancels a crawl and answers it as it is then; `None` if there is none. A finished or
    /// limited crawl stays so, whatever is asked, and so does a cancelled one unless it is set running again.
    ///
    /// Crawls finish by themselves: to ask for [`CrawlState::Finished`] or [`CrawlState::Limited`] is
    /// [`StoreError::Invalid`].
    async fn set_state(&self, id: &CrawlId, state: CrawlState) -> Result<Option<Crawl>, StoreError>;

    /// Changes the terms of a crawl, which thereby has the next revision, and answers it as it is then; `None` if
    /// there is no such crawl or its revision is not the one that the terms replace. A page limit that was raised
    /// sets a limited crawl running again; one that is used up ends a running one.
    async fn set_terms(&self, id: &CrawlId, terms: &NewTerms) -> Result<Option<Crawl>, StoreError>;

    /// Gives a crawl another name. Says whether it did: not if there is no such crawl, or if the new name is taken.
    async fn rename_crawl(&self, id: &CrawlId, to: &CrawlId) -> Result<bool, StoreError>;

    /// Deletes a crawl with all its URLs, in steps, and says whether it was there. What is in flight of it can no
    /// longer be settled. A crawl of the same name that is opened later is a new one.
    async fn delete_crawl(&self, id: &CrawlId) -> Result<bool, StoreError>;

    /// Makes URLs of a crawl wait again, their attempts forgotten, and sets the crawl running if something of it
    /// waits then, unless it is paused or its page limit is used up. Says how many URLs wait again.
    async fn reopen(&self, id: &CrawlId, which: &Reopen) -> Result<u64, StoreError>;

    /// Adds URLs to a crawl, in this order. A URL that the crawl knows is left as it is. One that is new sets a
    /// finished crawl running again, or makes it limited if its page limit is used up.
    ///
    /// A new URL that is not [wanted in any case](NewUrl::in_any_case) is left out while as many wait as the policy
    /// allows. Several who add at the same time may each add a batch before they see that of the others.
    ///
    /// An unknown crawl is [`StoreError::Invalid`].
    async fn add(&self, crawl: &CrawlId, urls: &[NewUrl]) -> Result<Vec<Added>, StoreError>;

    /// Takes up to `max` URLs that are due, from the hosts that have waited longest, no more from any one host
    /// of a crawl than would make `per_host` in flight; of one host in the order in which they became due.
    ///
    /// Only from crawls that run, and from none more than it may still fetch: its page limit less what it has
    /// fetched and has in flight. What lost its lease comes back here, in the first place, and takes more
    /// than one of the `max` places, see [`crate::suspects`]. A store that was away takes no lease for lost
    /// until its holder has had the chance to extend it.
    async fn next(&self, max: usize, per_host: u32) -> Result<Vec<Taken>, StoreError>;

    /// When the next URL is due, if one waits in a crawl that runs: how long there is nothing to take unless
    /// something is added or settled. Past times mean now.
    async fn due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Settles URLs that were taken. `None` means that the lease was lost before: the URL is, or was, somebody
    /// else's, and this had no effect. After the lease's end, but before anybody took the URL back, it counts.
    ///
    /// A crawl of which nothing waits and nothing is in flight any more is finished by this, and one that has fetched
    /// all it may is limited, or finished if nothing is left; and by a lost worker, if that ends its last
    /// URL.
    async fn settle(&self, endings: &[(Receipt, Ending)]) -> Result<Vec<Option<SettledAs>>, StoreError>;

    /// Gives each a new lease from now on, and says whether it was still held.
    async fn extend(&self, receipts: &[Receipt]) -> Result<Vec<bool>, StoreError>;

    /// Notes, durably, that the worker of a URL runs nothing else from now on until it is settled, and says
    /// whether it was still held. A worker that is lost meanwhile is a solo crash; after
    /// [`FrontierPolicy::max_solo_crashes`] of them the URL is dead. A lease that ends counts, too, since
    /// nobody can tell a dead worker elsewhere from a frozen one.
    async fn alone(&self, receipt: Receipt) -> Result<bool, StoreError>;

    /// Takes back everything in flight, as if all leases were lost at this moment, and says how many that
    /// were. For who knows that no other process uses this frontier.
    async fn take_back(&self) -> Result<u64, StoreError>;

    /// Makes a URL of a crawl wait again, whatever became of it, with [`NewUrl::insist`] set, unless it was set
    /// already. Says whether it does. Who is at the URL has lost it then, and a finished crawl runs again, unless
    /// its page limit is used up.
    async fn insist(&self, crawl: &CrawlId, url: &str) -> Result<bool, StoreError>;

    /// What is known of a URL, in every crawl that knows it, newest crawl first.
    async fn find(&self, url: &str) -> Result<Vec<Entry>, StoreError>;

    /// The links of a page as a crawl has kept them ([`PageFacts::links`]): those that were found last, whichever
    /// crawl it was. `None` if no crawl has kept any.
    async fn links(&self, url: &str) -> Result<Option<String>, StoreError>;

    /// The pages of a crawl whose links were kept, in the order in which their URLs were added, up to so many after
    /// this place.
    async fn pages(&self, crawl: &CrawlId, after: u64, most: usize) -> Result<Vec<PageLinks>, StoreError>;

    /// The URLs of a crawl that fit a filter, in the order in which they were added, up to so many after this place,
    /// which is an [`Entries::next`]. Empty for an unknown crawl.
    async fn entries(
        &self,
        crawl: &CrawlId,
        filter: &EntryFilter,
        after: Option<u64>,
        most: usize,
    ) -> Result<Entries, StoreError>;

    /// Up to so many of the URLs of a crawl that are done, were left out for this one ([`PageFacts::canonical`]), and
    /// are not insisted on, in the order in which they were added.
    async fn left_out_for(&self, crawl: &CrawlId, url: &str, most: usize) -> Result<Vec<Entry>, StoreError>;

    /// The dead of all crawls, or of one, oldest first, up to so many after this one, which is a
    /// [`DeadUrls::next`] and holds even if what it stands for was replayed or dropped.
    async fn dead(
        &self,
        crawl: Option<&CrawlId>,
        after: Option<&str>,
        most: usize,
    ) -> Result<DeadUrls, StoreError>;

    /// Makes the dead of these item ids wait again, their attempts forgotten and the replay counted, and their crawls run again if they
    /// were finished and may still fetch something. Says which were dead.
    async fn replay(&self, items: &[String]) -> Result<Vec<bool>, StoreError>;

    /// Throws away the dead of these item ids: they are known as done from then on. Says which were dead.
    async fn drop_dead(&self, items: &[String]) -> Result<Vec<bool>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_limit_bounds_what_is_kept_waiting_for_it() {
        let policy = FrontierPolicy { most_waiting: 1_000_000, ..FrontierPolicy::default() };
        assert_eq!(policy.most_waiting(None), 1_000_000);
        assert_eq!(policy.most_waiting(Some(50)), 10_000, "a small crawl sees some of its site all the same");
        assert_eq!(policy.most_waiting(Some(5_000)), 500_000);
        assert_eq!(policy.most_waiting(Some(u64::MAX)), 1_000_000);
        let small = FrontierPolicy { most_waiting: 3, ..policy };
        assert_eq!(small.most_waiting(Some(50)), 3);
    }
}
