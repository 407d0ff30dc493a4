//! Fixture of a frontier: adding, taking and settling.

pub(super) use super::{Fixture, Fresh};
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::{Frontier, FrontierPolicy, frontier::*};
use std::sync::atomic::{AtomicU64, Ordering};

/// Policy of most cases.
pub(crate) const POLICY: FrontierPolicy = FrontierPolicy {
    lease: LEASE,
    max_attempts: ATTEMPTS,
    max_solo_crashes: SOLO_CRASHES,
    max_pending: 1_000_000,
    max_pending_per_host: 1_000_000,
};
pub(super) const LEASE: Duration = Duration::from_secs(60);
pub(super) const ATTEMPTS: u32 = 3;
pub(super) const SOLO_CRASHES: u32 = 2;
/// A time span shorter than a lease.
pub(super) const WHILE: Duration = Duration::from_secs(20);
/// The resolution of time.
pub(super) const MOMENT: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A URL of this host with a new item id, which sorts after all earlier ones.
pub(super) fn url(host: &str, path: &str) -> NewUrl {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    NewUrl {
        item: format!("item-{:08}", COUNT.fetch_add(1, Ordering::Relaxed)),
        url: format!("https://{host}/{path}"),
        host: host.to_owned(),
        depth: 0,
        chain: 0,
        found_on: None,
        ignore_canonical: false,
        ignore_limit: false,
        budget: None,
    }
}

/// Fetched, and its host needs no rest.
pub(super) fn done() -> UrlVerdict {
    done_with(PageFacts { fetched: true, ..PageFacts::default() })
}

pub(super) fn done_with(facts: PageFacts) -> UrlVerdict {
    UrlVerdict::Done { outcome: "published".to_owned(), facts, host_delay: Duration::ZERO }
}

/// Crawl time of a page that [`Fixture::reopen_crawl`] reopens from this time on.
pub(super) fn due_at(time: Timestamp) -> Option<Timestamp> {
    Some(time - WHILE)
}

/// Failed, to be retried after this delay.
pub(super) fn retry(after: Duration) -> UrlVerdict {
    UrlVerdict::Retry { after, error: "timed out".to_owned(), host_delay: Duration::ZERO }
}

/// Failed with this error, to be retried at once.
pub(super) fn fails(error: &str) -> UrlVerdict {
    UrlVerdict::Retry { after: Duration::ZERO, error: error.to_owned(), host_delay: Duration::ZERO }
}

pub(super) fn dead() -> UrlVerdict {
    UrlVerdict::Dead { reason: "gone".to_owned(), host_delay: Duration::ZERO }
}

/// A frontier with one crawl without a page limit.
pub(super) type Crawling<'h> = (Fixture<'h>, CrawlId);

impl<'h> Begin<'h, dyn Frontier> for Crawling<'h> {
    async fn begin(harness: Fresh<'h>) -> Self {
        let t = Fixture::begin(harness).await;
        let crawl = t.start("crawl", None).await;
        (t, crawl)
    }
}

impl Fixture<'_> {
    /// Opens a crawl.
    pub(super) async fn start(&self, id: &str, max_pages: Option<u64>) -> CrawlId {
        let id = CrawlId::new(id).expect("the suite's crawl ids are allowed");
        let crawl = NewCrawl { id: id.clone(), definition: format!("the crawl {id}"), max_pages };
        expect_ok(self.store.open_crawl(&crawl).await, "opening a crawl");
        id
    }

    pub(super) async fn crawl(&self, id: &CrawlId) -> Crawl {
        let crawl = expect_ok(self.store.crawl(id).await, "reading a crawl");
        crawl.unwrap_or_else(|| panic!("the crawl {id} must be known"))
    }

    pub(super) async fn counts(&self, id: &CrawlId) -> CrawlCounts {
        self.crawl(id).await.counts
    }

    /// Counts: pending, in flight, done and dead.
    pub(super) async fn four(&self, id: &CrawlId) -> [u64; 4] {
        let counts = self.counts(id).await;
        [counts.waiting, counts.in_flight, counts.done, counts.dead]
    }

    pub(super) async fn is(&self, id: &CrawlId, state: CrawlState, because: &str) {
        let crawl = self.crawl(id).await;
        assert_eq!(crawl.state, state, "the crawl's state, since {because}");
        assert_eq!(crawl.ended_at.is_some(), state.has_ended(), "a crawl that is {state} has an end or none");
    }

    pub(super) async fn set(&self, id: &CrawlId, state: CrawlState) -> Crawl {
        let crawl = expect_ok(self.store.set_state(id, state).await, "setting a crawl's state");
        crawl.unwrap_or_else(|| panic!("the crawl {id} must be known"))
    }

    pub(super) async fn add(&self, crawl: &CrawlId, urls: &[NewUrl]) -> Vec<AddOutcome> {
        let added = expect_ok(self.store.add(crawl, urls).await, "adding");
        assert_eq!(added.len(), urls.len(), "one answer per URL");
        added
    }

    /// Adds URLs that the crawl does not know.
    pub(super) async fn adds(&self, crawl: &CrawlId, urls: &[NewUrl]) {
        let added = self.add(crawl, urls).await;
        assert!(added.iter().all(|added| *added == AddOutcome::New), "all are new: {added:?}");
    }

    /// Adds one URL per host and answers it.
    pub(super) async fn seed(&self, crawl: &CrawlId, host: &str) -> NewUrl {
        let new = url(host, "");
        self.adds(crawl, from_ref(&new)).await;
        new
    }

    /// Adds one URL for each of these hosts.
    pub(super) async fn seeds(&self, crawl: &CrawlId, hosts: &[&str]) {
        for host in hosts {
            self.seed(crawl, host).await;
        }
    }

    /// Replays items; answers for each whether it was dead.
    pub(super) async fn replay(&self, items: &[String]) -> Vec<bool> {
        expect_ok(self.store.replay(items).await, "replaying")
    }

    /// Insists on a URL; false if that was done before.
    pub(super) async fn insist(&self, crawl: &CrawlId, url: &str) -> bool {
        expect_ok(self.store.recrawl_ignoring_canonical(crawl, url).await, "insisting")
    }

    pub(super) async fn next(&self, max: usize, per_host: u32) -> Vec<ClaimedUrl> {
        let taken = expect_ok(self.store.claim_next(max, per_host).await, "taking");
        assert!(taken.len() <= max, "no more than {max} were asked for, and {} came", taken.len());
        taken
    }

    /// Takes the only URL that can be taken.
    pub(super) async fn take(&self, because: &str) -> ClaimedUrl {
        let mut taken = self.next(10, 1).await;
        assert_eq!(taken.len(), 1, "one URL can be taken, since {because}, and these were: {taken:?}");
        taken.remove(0)
    }

    /// Expects that nothing can be taken.
    pub(super) async fn nothing(&self, because: &str) {
        let taken = self.next(10, 5).await;
        assert!(taken.is_empty(), "nothing can be taken, since {because}, and these were: {taken:?}");
    }

    pub(super) async fn settles(&self, taken: &ClaimedUrl, ending: UrlVerdict) -> Option<UrlSettleOutcome> {
        let answers = expect_ok(self.store.settle(&[(taken.receipt, ending)]).await, "settling");
        assert_eq!(answers.len(), 1, "one answer per ending");
        answers[0]
    }

    /// Settles a URL that is held.
    pub(super) async fn settle(&self, taken: &ClaimedUrl, ending: UrlVerdict) -> UrlSettleOutcome {
        let text = format!("{ending:?}");
        let answer = self.settles(taken, ending).await;
        answer.unwrap_or_else(|| panic!("{} is held, and settling it as {text} must count", taken.url))
    }

    /// Settles a URL that is no longer held, and expects no effect.
    pub(super) async fn has_no_effect(&self, taken: &ClaimedUrl, ending: UrlVerdict, because: &str) {
        let before = self.counts(&taken.crawl).await;
        let answer = self.settles(taken, ending).await;
        assert_eq!(answer, None, "settling {} has no effect, since {because}", taken.url);
        assert_eq!(self.counts(&taken.crawl).await, before, "the counts stay as they are");
    }

    pub(super) async fn extend(&self, taken: &[&ClaimedUrl]) -> Vec<bool> {
        let receipts: Vec<_> = taken.iter().map(|taken| taken.receipt).collect();
        let held = expect_ok(self.store.extend(&receipts).await, "extending");
        assert_eq!(held.len(), receipts.len(), "one answer per receipt");
        held
    }

    pub(super) async fn alone(&self, taken: &ClaimedUrl) -> bool {
        expect_ok(self.store.mark_solo(taken.receipt).await, "running it alone")
    }

    pub(super) async fn take_back(&self) -> u64 {
        expect_ok(self.store.reclaim_all().await, "taking back")
    }

    pub(super) async fn reopen_crawl(&self, id: &CrawlId) -> u64 {
        let before = Reopen::CrawledBefore(self.now() - WHILE);
        expect_ok(self.store.reopen(id, &before).await, "reopening a crawl")
    }

    /// Changes the page limit of a crawl.
    pub(super) async fn set_limit(&self, id: &CrawlId, max_pages: Option<u64>) -> Crawl {
        let Crawl { revision: replaces, definition, .. } = self.crawl(id).await;
        let terms = NewSettings { expected_revision: replaces, definition, max_pages };
        let set = expect_ok(self.store.update_settings(id, &terms).await, "changing the terms");
        set.unwrap_or_else(|| panic!("revision {replaces} of the crawl {id} is in force"))
    }

    /// The entry of a URL in its only crawl.
    pub(super) async fn find(&self, url: &str) -> Entry {
        let mut found = expect_ok(self.store.find(url).await, "finding");
        assert_eq!(found.len(), 1, "{url:.80} is known to one crawl: {found:?}");
        found.remove(0)
    }

    /// All dead URLs, page by page.
    pub(super) async fn dead(&self, crawl: Option<&CrawlId>, most: usize) -> Vec<DeadUrl> {
        let (mut all, mut after) = (Vec::new(), None);
        for _ in 0..1000 {
            let page = expect_ok(self.store.dead(crawl, after.as_deref(), most).await, "listing the dead");
            assert!(page.urls.len() <= most, "no more than {most} at once");
            all.extend(page.urls);
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
        panic!("the list of the dead must end, and had {} after a thousand pages", all.len());
    }

    /// Takes all due URLs and settles them.
    pub(super) async fn end_all(&self, ending: impl Fn() -> UrlVerdict) {
        for taken in self.next(1000, 1000).await {
            self.settle(&taken, ending()).await;
        }
    }
}
