//! The frontier on SQL: crawls, their hosts in the order in which they are due, and the URLs of each host.
//!
//! Lock order: a transaction first locks the hosts of the URLs that it changes, by their numbers. The counts of a crawl, which
//! all workers share, are updated last, so that their row is locked only during the commit. `claim_next` skips locked hosts.

mod add;
mod counts;
mod crawls;
mod dead;
mod delete;
mod expire;
mod hosts;
mod lookup;
mod next;
mod settle;

use crate::{
    connection::Durability,
    store::{SqlStore, read, transact},
};
use crawlway_store::{
    Frontier, FrontierPolicy, StoreError, Timestamp,
    frontier::{
        AddOutcome, ClaimedUrl, Crawl, CrawlId, CrawlState, DeadUrls, Entries, Entry, EntryFilter, NewCrawl,
        NewSettings, NewUrl, PageLinks, Receipt, Reopen, UrlSettleOutcome, UrlVerdict,
    },
};
use std::sync::atomic::Ordering;

/// States of a URL, as they are stored.
const PENDING: i64 = 0;
const IN_FLIGHT: i64 = 1;
const DONE: i64 = 2;
const DEAD: i64 = 3;

#[async_trait::async_trait]
impl Frontier for SqlStore {
    fn policy(&self) -> FrontierPolicy {
        self.0.policy
    }

    async fn open_crawl(&self, crawl: &NewCrawl) -> Result<(Crawl, bool), StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, crawls::open(tx, crawl, now))
    }

    async fn crawl(&self, id: &CrawlId) -> Result<Option<Crawl>, StoreError> {
        read!(self, tx, crawls::one(tx, id))
    }

    async fn crawls(&self, after: Option<&CrawlId>, max: usize) -> Result<Vec<Crawl>, StoreError> {
        read!(self, tx, crawls::list(tx, after, max))
    }

    async fn set_state(&self, id: &CrawlId, state: CrawlState) -> Result<Option<Crawl>, StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, crawls::set_state(tx, id, state, now))
    }

    async fn update_settings(
        &self,
        id: &CrawlId,
        settings: &NewSettings,
    ) -> Result<Option<Crawl>, StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, crawls::update_settings(tx, id, settings, now))
    }

    async fn rename_crawl(&self, id: &CrawlId, to: &CrawlId) -> Result<bool, StoreError> {
        let renamed = transact!(Durability::PowerLoss, self, tx, crawls::rename(tx, id, to))?;
        self.0.crawls.lock().remove(id.as_str());
        Ok(renamed)
    }

    async fn delete_crawl(&self, id: &CrawlId) -> Result<bool, StoreError> {
        delete::delete(self, id).await
    }

    async fn reopen(&self, id: &CrawlId, which: &Reopen) -> Result<u64, StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, crawls::reopen(tx, id, which, now))
    }

    async fn add(&self, crawl: &CrawlId, urls: &[NewUrl]) -> Result<Vec<AddOutcome>, StoreError> {
        add::add(self, crawl, urls).await
    }

    async fn claim_next(&self, max: usize, per_host: u32) -> Result<Vec<ClaimedUrl>, StoreError> {
        self.0.per_host.store(per_host, Ordering::Relaxed);
        if max == 0 || per_host == 0 {
            return Ok(vec![]);
        }
        transact!(self, tx, next::next(tx, &self.0, max, per_host))
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let per_host = self.0.per_host.load(Ordering::Relaxed);
        read!(self, tx, next::due(tx, &self.0, per_host))
    }

    async fn settle(
        &self,
        endings: &[(Receipt, UrlVerdict)],
    ) -> Result<Vec<Option<UrlSettleOutcome>>, StoreError> {
        if endings.is_empty() {
            return Ok(vec![]);
        }
        let policy = self.0.policy;
        let now = self.0.time.now();
        transact!(self, tx, settle::settle(tx, policy, now, endings))
    }

    async fn extend(&self, receipts: &[Receipt]) -> Result<Vec<bool>, StoreError> {
        if receipts.is_empty() {
            return Ok(vec![]);
        }
        let until = crate::time::after(self.0.time.now(), self.0.policy.lease);
        transact!(self, tx, settle::extend(tx, receipts, until))
    }

    async fn mark_solo(&self, receipt: Receipt) -> Result<bool, StoreError> {
        transact!(Durability::PowerLoss, self, tx, settle::mark_solo(tx, receipt))
    }

    async fn reclaim_all(&self) -> Result<u64, StoreError> {
        let policy = self.0.policy;
        let now = self.0.time.now();
        transact!(self, tx, expire::reclaim_all(tx, policy, now))
    }

    async fn recrawl_ignoring_canonical(&self, crawl: &CrawlId, url: &str) -> Result<bool, StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, crawls::recrawl_ignoring_canonical(tx, crawl, url, now))
    }

    async fn find(&self, url: &str) -> Result<Vec<Entry>, StoreError> {
        // On the writer, whose memory has the newest keys on SQLite; likewise `links`.
        transact!(self, tx, lookup::find(tx, url))
    }

    async fn links(&self, url: &str) -> Result<Option<String>, StoreError> {
        transact!(self, tx, lookup::links(tx, url))
    }

    async fn page_links(
        &self,
        crawl: &CrawlId,
        after: u64,
        max: usize,
    ) -> Result<Vec<PageLinks>, StoreError> {
        read!(self, tx, lookup::pages(tx, crawl, after, max))
    }

    async fn entries(
        &self,
        crawl: &CrawlId,
        filter: &EntryFilter,
        after: Option<u64>,
        max: usize,
    ) -> Result<Entries, StoreError> {
        read!(self, tx, lookup::entries(tx, crawl, filter, after, max))
    }

    async fn canonicalized_to(
        &self,
        crawl: &CrawlId,
        url: &str,
        max: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        read!(self, tx, lookup::canonicalized_to(tx, crawl, url, max))
    }

    async fn dead(
        &self,
        crawl: Option<&CrawlId>,
        after: Option<&str>,
        max: usize,
    ) -> Result<DeadUrls, StoreError> {
        read!(self, tx, dead::list(tx, crawl, after, max))
    }

    async fn replay(&self, items: &[String]) -> Result<Vec<bool>, StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, dead::end(tx, items, now, dead::Action::Replay))
    }

    async fn drop_dead_letters(&self, items: &[String]) -> Result<Vec<bool>, StoreError> {
        let now = self.0.time.now();
        transact!(Durability::PowerLoss, self, tx, dead::end(tx, items, now, dead::Action::Drop))
    }
}
