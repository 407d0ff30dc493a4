//! The frontier as a source for the runner.

use super::crawl::reinstate_settled;
use crawlway_broker::{
    BrokerError, Delivery, Failure, Headers, Message, MessageId, QueueName, Receipt, SettleError,
    SettleOutcome, Verdict,
};
use crawlway_clock::{Clock, Timestamp};
use crawlway_flow::{ReceiveWait, Settlement, Source};
use crawlway_store::{
    Frontier, StoreError,
    frontier::{self, ClaimedUrl, CrawlId, PageFacts, UrlSettleOutcome, UrlVerdict, Validators},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Name of the frontier in the list of queues.
pub const FRONTIER: &str = "frontier";

/// Queue name of the frontier.
pub(super) fn frontier_queue() -> QueueName {
    // Cannot fail: the constant is a valid name.
    QueueName::new(FRONTIER).unwrap_or_else(|_| unreachable!())
}

/// Content of an item of the crawl stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CrawlJob {
    pub(super) crawl: CrawlId,
    /// Revision of the crawl's settings.
    pub(super) revision: u64,
    pub(super) url: String,
    pub(super) depth: u32,
    pub(super) chain: u32,
    pub(super) ignore_canonical: bool,
    pub(super) validators: Validators,
}

/// Data for the frontier about a URL that is done.
#[derive(Debug, Default)]
pub(super) struct CrawlNote {
    pub(super) facts: PageFacts,
    /// Whether its host was requested, so that the minimum delay applies.
    pub(super) requested: bool,
    /// Whether the URL has no page.
    pub(super) no_page: bool,
}

/// Frontier as a source.
#[derive(Debug)]
pub(super) struct FrontierSource {
    frontier: Arc<dyn Frontier>,
    name: QueueName,
    clock: Clock,
    per_host: u32,
    min_delay: Duration,
    /// Notified when more URLs may be due.
    changed: Arc<Notify>,
    /// URLs of the items in flight.
    in_flight: Mutex<HashMap<Receipt, (CrawlId, String)>>,
}

impl FrontierSource {
    /// Source with this concurrency and minimum delay per host.
    pub(super) fn new(
        frontier: Arc<dyn Frontier>,
        clock: Clock,
        per_host: u32,
        min_delay: Duration,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            frontier,
            name: frontier_queue(),
            clock,
            per_host,
            min_delay,
            changed,
            in_flight: Mutex::default(),
        }
    }

    /// Reinstates pages whose canonical URL turned out to have no page, now that these are settled.
    async fn reinstate(&self, settlements: &[Settlement<CrawlNote>], answers: &[Option<UrlSettleOutcome>]) {
        let mut settled = Vec::new();
        for (settlement, answer) in settlements.iter().zip(answers) {
            let Some(url) = self.in_flight.lock().remove(&settlement.receipt) else { continue };
            let is_done = matches!(answer, Some(UrlSettleOutcome::Done));
            let affects_others = settlement.note.no_page || settlement.note.facts.canonical.is_some();
            if matches!(answer, Some(UrlSettleOutcome::Dead)) || (is_done && affects_others) {
                settled.push(url);
            }
        }
        for (crawl, url) in settled {
            if let Err(error) = reinstate_settled(&*self.frontier, &crawl, &url).await {
                // The stage has checked it before; only a concurrent change since then is missed.
                tracing::warn!(%crawl, url, %error, "cannot check whether other pages must be reinstated");
            }
        }
    }

    fn delivery(&self, taken: ClaimedUrl, now: Timestamp) -> Delivery {
        let job = CrawlJob {
            crawl: taken.crawl,
            revision: taken.revision,
            url: taken.url,
            depth: taken.depth,
            chain: taken.chain,
            ignore_canonical: taken.ignore_canonical,
            validators: taken.validators,
        };
        let receipt =
            Receipt { queue: self.name.clone(), epoch: taken.receipt.claim, tag: taken.receipt.entry };
        self.in_flight.lock().insert(receipt.clone(), (job.crawl.clone(), job.url.clone()));
        Delivery {
            receipt,
            message: Message {
                id: MessageId::from(taken.item.as_str()),
                key: None,
                group: Some(taken.host),
                headers: Headers::new(),
                // Cannot fail: all fields are serialisable.
                body: serde_json::to_vec(&job).unwrap_or_default().into(),
                published_at: now,
                defects: Vec::new(),
            },
            attempt: taken.attempt,
            losses: taken.losses,
            last_error: taken.last_error.map(|error| Failure { error, at: now }),
            replays: taken.replays,
            lease_until: taken.lease_until,
        }
    }

    fn ending(&self, settlement: &Settlement<CrawlNote>) -> UrlVerdict {
        let rest = self.min_delay;
        match &settlement.verdict {
            Verdict::Done => UrlVerdict::Done {
                outcome: settlement.outcome.to_owned(),
                facts: settlement.note.facts.clone(),
                host_delay: if settlement.note.requested { rest } else { Duration::ZERO },
            },
            Verdict::Retry { after, error } => {
                UrlVerdict::Retry { after: *after, error: error.clone(), host_delay: rest }
            }
            Verdict::Requeue => UrlVerdict::Defer { until: self.clock.now() },
            // An outage of this worker does not defer the host: other workers continue with it.
            Verdict::Defer { until } if !settlement.defers_group || settlement.outcome == "waited" => {
                UrlVerdict::Wait { until: *until }
            }
            Verdict::Defer { until } => UrlVerdict::Defer { until: *until },
            Verdict::Dead { reason } => UrlVerdict::Dead { reason: reason.clone(), host_delay: rest },
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

    async fn receive(&self, max: usize, wait: ReceiveWait<'_>) -> Result<Vec<Delivery>, BrokerError> {
        let until = self.clock.now() + wait.max();
        loop {
            // Registered before the look, so that no change is missed.
            let changed = self.changed.notified();
            let taken = self.frontier.claim_next(max, self.per_host).await.map_err(broker_error)?;
            let now = self.clock.now();
            if !taken.is_empty() {
                return Ok(taken.into_iter().map(|taken| self.delivery(taken, now)).collect());
            }
            if now >= until {
                return Ok(Vec::new());
            }
            let due = self.frontier.next_due().await.map_err(broker_error)?;
            let look = due.map_or(until, |due| due.max(now + Duration::from_millis(1)).min(until));
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(look) => {}
                () = wait.cancelled() => return Ok(Vec::new()),
            }
        }
    }

    async fn settle(&self, settlements: &[Settlement<CrawlNote>]) -> Vec<Result<SettleOutcome, SettleError>> {
        let endings: Vec<_> =
            settlements.iter().map(|one| (receipt(&one.receipt), self.ending(one))).collect();
        let answers = self.frontier.settle(&endings).await;
        if let Ok(answers) = &answers {
            self.reinstate(settlements, answers).await;
        }
        self.changed.notify_one();
        match answers {
            Ok(answers) => answers
                .into_iter()
                .map(|answer| match answer {
                    Some(UrlSettleOutcome::Done) => Ok(SettleOutcome::Done),
                    Some(UrlSettleOutcome::Retrying { attempt }) => Ok(SettleOutcome::Retrying { attempt }),
                    Some(UrlSettleOutcome::Deferred) => Ok(SettleOutcome::Deferred),
                    Some(UrlSettleOutcome::Dead) => Ok(SettleOutcome::Dead),
                    None => Err(SettleError::Fenced { queue: self.name.clone() }),
                })
                .collect(),
            Err(error) => settlements.iter().map(|_| Err(settle_error(error.clone()))).collect(),
        }
    }

    async fn extend(&self, receipts: &[Receipt]) -> Vec<Result<(), SettleError>> {
        let own: Vec<_> = receipts.iter().map(receipt).collect();
        match self.frontier.extend(&own).await {
            Ok(answers) => {
                let answer = |(receipt, is_extended): (&Receipt, bool)| {
                    if is_extended {
                        return Ok(());
                    }
                    self.in_flight.lock().remove(receipt);
                    Err(SettleError::Fenced { queue: self.name.clone() })
                };
                receipts.iter().zip(answers).map(answer).collect()
            }
            Err(error) => receipts.iter().map(|_| Err(settle_error(error.clone()))).collect(),
        }
    }

    async fn mark_solo(&self, item: &Receipt) -> Result<(), SettleError> {
        match self.frontier.mark_solo(receipt(item)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SettleError::Fenced { queue: self.name.clone() }),
            Err(error) => Err(settle_error(error)),
        }
    }
}

fn receipt(receipt: &Receipt) -> frontier::Receipt {
    frontier::Receipt { entry: receipt.tag, claim: receipt.epoch }
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
    use crate::search::crawl::new_url;
    use crawlway_flow::Shutdown;
    use crawlway_store::frontier::NewCrawl;
    use crawlway_store_sql::{Database, SqlOptions, SqlStore};

    /// Both are in flight, so neither sees the result of the other during its crawl. The one settled last must.
    #[tokio::test]
    async fn a_page_is_reinstated_when_its_canonical_url_ends_concurrently_without_a_page() {
        let [page, gone] = ["https://h/page", "https://h/gone"];
        for order in [[page, gone], [gone, page]] {
            let folder = tempfile::tempdir().unwrap();
            let place = Database::Sqlite(folder.path().join("records.db"));
            let frontier = Arc::new(SqlStore::open(SqlOptions::new(place)).await.unwrap());
            let id = CrawlId::new("c").unwrap();
            let crawl = NewCrawl { id: id.clone(), definition: String::new(), max_pages: None };
            frontier.open_crawl(&crawl).await.unwrap();
            let urls = [page, gone].map(|url| new_url(url.parse().unwrap(), 0, 0, None));
            frontier.add(&id, &urls).await.unwrap();
            let source =
                FrontierSource::new(frontier.clone(), Clock::System, 2, Duration::ZERO, Arc::default());
            let taken =
                source.receive(2, ReceiveWait::new(Duration::ZERO, &Shutdown::default())).await.unwrap();
            assert_eq!(taken.len(), 2);
            for settled in order {
                let job = |delivery: &&Delivery| {
                    serde_json::from_slice::<CrawlJob>(&delivery.message.body).unwrap().url == settled
                };
                let receipt = taken.iter().find(job).unwrap().receipt.clone();
                let (outcome, note) = if settled == page {
                    let facts = PageFacts { canonical: Some(gone.to_owned()), ..PageFacts::default() };
                    ("left_out", CrawlNote { facts, requested: true, no_page: false })
                } else {
                    ("gone", CrawlNote { no_page: true, requested: true, ..CrawlNote::default() })
                };
                let verdict = Verdict::Done;
                source.settle(&[Settlement { receipt, verdict, outcome, note, defers_group: true }]).await;
            }
            let again = frontier.claim_next(2, 2).await.unwrap();
            let again: Vec<_> =
                again.iter().map(|taken| (taken.url.as_str(), taken.ignore_canonical)).collect();
            assert_eq!(again, [(page, true)], "{order:?} is the order in which they were settled");
        }
    }
}
