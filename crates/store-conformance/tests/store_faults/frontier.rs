//! Faults of a frontier.

use super::{Answer, Sqlite, faulty, finds};
use crawlway_store::{Frontier, FrontierPolicy, Timestamp, frontier::*};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    OneMoreThanAsked,
    OneMorePerHost,
    RestIsIgnored,
    RetryAtOnce,
    DeferralCounts,
    DropsValidators,
    LeaseIsNeverLost,
    AloneIsIgnored,
    BudgetIsIgnored,
    FoldsCase,
    AnyRevisionWill,
    PauseIsIgnored,
}
use Fault::*;

faulty! { Frontier {
        open_crawl(crawl: &NewCrawl) -> Answer<(Crawl, bool)>;
        crawl(id: &CrawlId) -> Answer<Option<Crawl>>;
        crawls(after: Option<&CrawlId>, most: usize) -> Answer<Vec<Crawl>>;
        rename_crawl(id: &CrawlId, to: &CrawlId) -> Answer<bool>;
        delete_crawl(id: &CrawlId) -> Answer<bool>;
        reopen(id: &CrawlId, which: &Reopen) -> Answer<u64>;
        next_due() -> Answer<Option<Timestamp>>;
        reclaim_all() -> Answer<u64>;
        recrawl_ignoring_canonical(crawl: &CrawlId, url: &str) -> Answer<bool>;
        find(url: &str) -> Answer<Vec<Entry>>;
        links(url: &str) -> Answer<Option<String>>;
        page_links(crawl: &CrawlId, after: u64, most: usize) -> Answer<Vec<PageLinks>>;
        entries(crawl: &CrawlId, filter: &EntryFilter, after: Option<u64>, most: usize) -> Answer<Entries>;
        canonicalized_to(crawl: &CrawlId, url: &str, most: usize) -> Answer<Vec<Entry>>;
        dead(crawl: Option<&CrawlId>, after: Option<&str>, most: usize) -> Answer<DeadUrls>;
        replay(items: &[String]) -> Answer<Vec<bool>>;
        drop_dead_letters(items: &[String]) -> Answer<Vec<bool>>;
    }

    fn policy(&self) -> FrontierPolicy {
        self.store.policy()
    }

    async fn set_state(&self, id: &CrawlId, state: CrawlState) -> Answer<Option<Crawl>> {
        if self.fault == PauseIsIgnored && state == CrawlState::Paused {
            return self.store.crawl(id).await;
        }
        self.store.set_state(id, state).await
    }

    async fn update_settings(&self, id: &CrawlId, terms: &NewSettings) -> Answer<Option<Crawl>> {
        let mut terms = terms.clone();
        if self.fault == AnyRevisionWill {
            terms.expected_revision = self.store.crawl(id).await?.map_or(terms.expected_revision, |crawl| crawl.revision);
        }
        self.store.update_settings(id, &terms).await
    }

    async fn add(&self, crawl: &CrawlId, urls: &[NewUrl]) -> Answer<Vec<AddOutcome>> {
        let mut urls = urls.to_vec();
        for url in &mut urls {
            match self.fault {
                BudgetIsIgnored => url.budget = None,
                FoldsCase => url.url = url.url.to_lowercase(),
                _ => {}
            }
        }
        self.store.add(crawl, &urls).await
    }

    async fn claim_next(&self, max: usize, per_host: u32) -> Answer<Vec<ClaimedUrl>> {
        let max = max + usize::from(self.fault == OneMoreThanAsked);
        self.store.claim_next(max, per_host + u32::from(self.fault == OneMorePerHost)).await
    }

    async fn settle(&self, endings: &[(Receipt, UrlVerdict)]) -> Answer<Vec<Option<UrlSettleOutcome>>> {
        let mut endings = endings.to_vec();
        for (_, ending) in &mut endings {
            match (self.fault, &mut *ending) {
                (RestIsIgnored, UrlVerdict::Done { host_delay: rest, .. }) => *rest = Duration::ZERO,
                (RetryAtOnce, UrlVerdict::Retry { after, .. }) => *after = Duration::ZERO,
                (DropsValidators, UrlVerdict::Done { facts, .. }) => facts.validators = Validators::default(),
                (DeferralCounts, UrlVerdict::Defer { .. }) => {
                    let (after, rest) = (Duration::ZERO, Duration::ZERO);
                    *ending = UrlVerdict::Retry { after, error: "deferred".to_owned(), host_delay: rest };
                }
                _ => {}
            }
        }
        self.store.settle(&endings).await
    }

    async fn extend(&self, receipts: &[Receipt]) -> Answer<Vec<bool>> {
        let held = self.store.extend(receipts).await?;
        Ok(held.into_iter().map(|held| held || self.fault == LeaseIsNeverLost).collect())
    }

    async fn mark_solo(&self, receipt: Receipt) -> Answer<bool> {
        if self.fault == AloneIsIgnored { Ok(true) } else { self.store.mark_solo(receipt).await }
    }
}

finds! { frontier on dyn Frontier, Sqlite::new();
    OneMoreThanAsked: taking::no_more_than_asked_for;
    OneMorePerHost: taking::no_more_of_a_host_than_allowed_in_flight, schedule::any_schedule_agrees_with_the_model;
    RestIsIgnored: taking::a_resting_host_is_left_alone, schedule::any_schedule_agrees_with_the_model;
    RetryAtOnce: settling::a_retry_waits_and_counts;
    DeferralCounts: settling::a_deferral_counts_nothing;
    DropsValidators: again::validators_are_kept_and_handed_out;
    LeaseIsNeverLost: leases::extending_a_lost_lease_is_refused;
    AloneIsIgnored: suspects::a_url_that_kills_its_worker_alone_ends_dead;
    BudgetIsIgnored: adding::a_budget_lets_in_so_many;
    FoldsCase: batches::odd_urls_are_kept_apart;
    AnyRevisionWill: crawls::terms_are_changed_only_from_their_current_revision;
    PauseIsIgnored: crawls::a_paused_crawl_hands_out_nothing;
}
