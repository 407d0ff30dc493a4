//! The frontier as a source of items for the runner.

use super::crawl::settled;
use crawlway_broker::{
    BrokerError, Delivery, Failure, Headers, Message, MessageId, QueueName, Receipt, SettleError, Settled,
    Verdict,
};
use crawlway_clock::{Clock, Timestamp};
use crawlway_flow::{Ended, Source, Wait};
use crawlway_store::{
    Frontier, StoreError,
    frontier::{self, CrawlId, Ending, PageFacts, SettledAs, Taken, Validators},
};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The name of the frontier where queues are listed.
pub const FRONTIER: &str = "frontier";

/// What an item of the crawl stage carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CrawlJob {
    pub(super) crawl: CrawlId,
    /// The revision of the crawl's terms.
    pub(super) revision: u64,
    pub(super) url: String,
    pub(super) depth: u32,
    pub(super) chain: u32,
    pub(super) insist: bool,
    pub(super) validators: Validators,
}

/// What the frontier is told about a URL that is done.
#[derive(Debug, Default)]
pub(super) struct CrawlNote {
    pub(super) facts: PageFacts,
    /// Whether its host was asked for something, and is to be left alone for a while.
    pub(super) asked: bool,
    /// There is no page under this URL.
    pub(super) no_page: bool,
}

/// The frontier as a source.
#[derive(Debug)]
pub(super) struct FrontierSource {
    frontier: Arc<dyn Frontier>,
    name: QueueName,
    clock: Clock,
    per_host: u32,
    gap: Duration,
    /// Something may be due now that was not before.
    changed: Arc<Notify>,
    /// What was taken and is not settled yet.
    held: Mutex<HashMap<Receipt, (CrawlId, String)>>,
}

impl FrontierSource {
    /// `per_host` URLs of one host may be on their way at a time; after each its host is left alone for the gap.
    pub(super) fn new(
        frontier: Arc<dyn Frontier>,
        clock: Clock,
        per_host: u32,
        gap: Duration,
        changed: Arc<Notify>,
    ) -> Self {
        // The constant is an allowed name.
        let name = QueueName::new(FRONTIER).unwrap_or_else(|_| unreachable!());
        Self { frontier, name, clock, per_host, gap, changed, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Receipt, (CrawlId, String)>> {
        self.held.lock()
    }

    /// Sees to it that no page is lost for having been left out for another URL, now that these are settled.
    async fn look_after(&self, ended: &[Ended<CrawlNote>], answers: &[Option<SettledAs>]) {
        let mut concerned = Vec::new();
        for (ended, answer) in ended.iter().zip(answers) {
            let Some(url) = self.held().remove(&ended.receipt) else { continue };
            let is_done = matches!(answer, Some(SettledAs::Done));
            let other_url_counts = ended.note.no_page || ended.note.facts.canonical.is_some();
            if matches!(answer, Some(SettledAs::Dead)) || (is_done && other_url_counts) {
                concerned.push(url);
            }
        }
        for (crawl, url) in concerned {
            if let Err(error) = settled(&*self.frontier, &crawl, &url).await {
                // It was looked at before it was settled; only what happened in between is missed.
                tracing::warn!(%crawl, url, %error, "cannot see whether another page is wanted in its place");
            }
        }
    }

    fn delivery(&self, taken: Taken, now: Timestamp) -> Delivery {
        let job = CrawlJob {
            crawl: taken.crawl,
            revision: taken.revision,
            url: taken.url,
            depth: taken.depth,
            chain: taken.chain,
            insist: taken.insist,
            validators: taken.validators,
        };
        let receipt =
            Receipt { queue: self.name.clone(), epoch: taken.receipt.taking, tag: taken.receipt.entry };
        self.held().insert(receipt.clone(), (job.crawl.clone(), job.url.clone()));
        Delivery {
            receipt,
            message: Message {
                id: MessageId::from(taken.item.as_str()),
                key: None,
                group: Some(taken.host),
                headers: Headers::new(),
                // Nothing in a job can fail to be written.
                body: serde_json::to_vec(&job).unwrap_or_default().into(),
                published_at: now,
            },
            attempt: taken.attempt,
            losses: taken.losses,
            last_error: taken.last_error.map(|error| Failure { error, at: now }),
            replays: taken.replays,
            lease_until: taken.lease_until,
        }
    }

    fn ending(&self, ended: &Ended<CrawlNote>) -> Ending {
        let rest = self.gap;
        match &ended.verdict {
            Verdict::Done => Ending::Done {
                outcome: ended.outcome.to_owned(),
                facts: ended.note.facts.clone(),
                rest: if ended.note.asked { rest } else { Duration::ZERO },
            },
            Verdict::Retry { after, error } => Ending::Retry { after: *after, error: error.clone(), rest },
            Verdict::Requeue => Ending::Defer { until: self.clock.now() },
            // What is out of order here need not be so elsewhere: other workers go on with the host.
            Verdict::Defer { until } if !ended.holds_group || ended.outcome == "waited" => {
                Ending::Wait { until: *until }
            }
            Verdict::Defer { until } => Ending::Defer { until: *until },
            Verdict::Dead { reason } => Ending::Dead { reason: reason.clone(), rest },
        }
    }
}

#[async_trait::async_trait]
impl Source<CrawlNote> for FrontierSource {
    fn name(&self) -> &str {
        FRONTIER
    }

    fn lease(&self) -> Duration {
        self.frontier.policy().lease
    }

    fn max_attempts(&self) -> u32 {
        self.frontier.policy().max_attempts
    }

    async fn take(&self, max: usize, wait: Wait<'_>) -> Result<Vec<Delivery>, BrokerError> {
        let until = self.clock.now() + wait.longest();
        loop {
            // Asked for before looking, so that a change in between is not missed.
            let changed = self.changed.notified();
            let taken = self.frontier.next(max, self.per_host).await.map_err(broker_error)?;
            let now = self.clock.now();
            if !taken.is_empty() {
                return Ok(taken.into_iter().map(|taken| self.delivery(taken, now)).collect());
            }
            if now >= until {
                return Ok(Vec::new());
            }
            let due = self.frontier.due().await.map_err(broker_error)?;
            let look = due.map_or(until, |due| due.max(now + Duration::from_millis(1)).min(until));
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(look) => {}
                () = wait.cut_short() => return Ok(Vec::new()),
            }
        }
    }

    async fn settle(&self, ended: &[Ended<CrawlNote>]) -> Vec<Result<Settled, SettleError>> {
        let endings: Vec<_> =
            ended.iter().map(|ended| (receipt(&ended.receipt), self.ending(ended))).collect();
        let answers = self.frontier.settle(&endings).await;
        if let Ok(answers) = &answers {
            self.look_after(ended, answers).await;
        }
        self.changed.notify_one();
        match answers {
            Ok(answers) => answers
                .into_iter()
                .map(|answer| match answer {
                    Some(SettledAs::Done) => Ok(Settled::Done),
                    Some(SettledAs::Retrying { attempt }) => Ok(Settled::Retrying { attempt }),
                    Some(SettledAs::Deferred) => Ok(Settled::Deferred),
                    Some(SettledAs::Dead) => Ok(Settled::Dead),
                    None => Err(SettleError::Fenced { queue: self.name.clone() }),
                })
                .collect(),
            Err(error) => ended.iter().map(|_| Err(settle_error(error.clone()))).collect(),
        }
    }

    async fn extend(&self, receipts: &[Receipt]) -> Vec<Result<(), SettleError>> {
        let own: Vec<_> = receipts.iter().map(receipt).collect();
        match self.frontier.extend(&own).await {
            Ok(answers) => {
                let answer = |(receipt, is_held): (&Receipt, bool)| {
                    if is_held {
                        return Ok(());
                    }
                    self.held().remove(receipt);
                    Err(SettleError::Fenced { queue: self.name.clone() })
                };
                receipts.iter().zip(answers).map(answer).collect()
            }
            Err(error) => receipts.iter().map(|_| Err(settle_error(error.clone()))).collect(),
        }
    }

    async fn alone(&self, held: &Receipt) -> Result<(), SettleError> {
        match self.frontier.alone(receipt(held)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SettleError::Fenced { queue: self.name.clone() }),
            Err(error) => Err(settle_error(error)),
        }
    }
}

fn receipt(receipt: &Receipt) -> frontier::Receipt {
    frontier::Receipt { entry: receipt.tag, taking: receipt.epoch }
}

fn broker_error(error: StoreError) -> BrokerError {
    match error {
        StoreError::Closed => BrokerError::Closed,
        other => BrokerError::Unavailable { detail: other.to_string() },
    }
}

fn settle_error(error: StoreError) -> SettleError {
    match error {
        StoreError::Closed => SettleError::Closed,
        other => SettleError::Unavailable { detail: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_flow::Stop;
    use crawlway_store::frontier::{NewCrawl, NewUrl};
    use crawlway_store_sql::{Place, SqlOptions, SqlStore};

    fn url(item: &str, url: &str) -> NewUrl {
        NewUrl {
            item: item.to_owned(),
            url: url.to_owned(),
            host: "h".to_owned(),
            depth: 0,
            chain: 0,
            found_on: None,
            insist: false,
            in_any_case: false,
            budget: None,
        }
    }

    /// Both are under way, so that neither could see while it was worked on what became of the other. Whichever is
    /// settled last has to see it.
    #[tokio::test]
    async fn a_page_left_out_for_a_url_that_ends_at_the_same_time_is_wanted_after_all() {
        let [page, gone] = ["https://h/page", "https://h/gone"];
        for order in [[page, gone], [gone, page]] {
            let folder = tempfile::tempdir().unwrap();
            let place = Place::Sqlite(folder.path().join("records.db"));
            let frontier = Arc::new(SqlStore::open(SqlOptions::new(place)).await.unwrap());
            let id = CrawlId::new("c").unwrap();
            let crawl = NewCrawl { id: id.clone(), definition: String::new(), max_pages: None };
            frontier.open_crawl(&crawl).await.unwrap();
            frontier.add(&id, &[url("1", page), url("2", gone)]).await.unwrap();
            let source =
                FrontierSource::new(frontier.clone(), Clock::System, 2, Duration::ZERO, Arc::default());
            let taken = source.take(2, Wait::new(Duration::ZERO, &Stop::default())).await.unwrap();
            assert_eq!(taken.len(), 2);
            for settled in order {
                let job = |delivery: &&Delivery| {
                    serde_json::from_slice::<CrawlJob>(&delivery.message.body).unwrap().url == settled
                };
                let receipt = taken.iter().find(job).unwrap().receipt.clone();
                let (outcome, note) = if settled == page {
                    let facts = PageFacts { canonical: Some(gone.to_owned()), ..PageFacts::default() };
                    ("left_out", CrawlNote { facts, asked: true, no_page: false })
                } else {
                    ("gone", CrawlNote { no_page: true, asked: true, ..CrawlNote::default() })
                };
                source
                    .settle(&[Ended { receipt, verdict: Verdict::Done, outcome, note, holds_group: true }])
                    .await;
            }
            let again = frontier.next(2, 2).await.unwrap();
            let again: Vec<_> = again.iter().map(|taken| (taken.url.as_str(), taken.insist)).collect();
            assert_eq!(again, [(page, true)], "{order:?} is the order in which they were settled");
        }
    }
}
