//! Where items come from and are settled: a queue, or a store that behaves like one.

use crate::Stop;
use crawlway_broker::{Broker, BrokerError, Delivery, QueueSpec, Receipt, SettleError, Settled, Verdict};
use std::{fmt::Debug, sync::Arc, time::Duration};

/// Where a stage's items come from. `N` is what it is told about an item that is done.
#[async_trait::async_trait]
pub trait Source<N>: Debug + Send + Sync + 'static {
    /// Its name, as in `crawlway queues`.
    fn name(&self) -> &str;

    /// How long an item is its taker's.
    fn lease(&self) -> Duration;

    /// How many attempts an item gets.
    fn max_attempts(&self) -> u32;

    /// Takes up to `max` items; returns as soon as there is one, and empty once the wait is over without any.
    async fn take(&self, max: usize, wait: Wait<'_>) -> Result<Vec<Delivery>, BrokerError>;

    /// Settles items; one answer each, in order.
    async fn settle(&self, ended: &[Ended<N>]) -> Vec<Result<Settled, SettleError>>;

    /// Renews leases; one answer each, in order.
    async fn extend(&self, receipts: &[Receipt]) -> Vec<Result<(), SettleError>>;

    /// Notes, durably, that nothing runs beside this item in the process until it is settled, see [`Broker::alone`].
    async fn alone(&self, receipt: &Receipt) -> Result<(), SettleError>;
}

/// How long items are waited for.
#[derive(Debug, Clone, Copy)]
pub struct Wait<'s> {
    longest: Duration,
    stop: &'s Stop,
    /// Since when haste counts, if there are items already.
    haste: Option<u64>,
}

impl<'s> Wait<'s> {
    /// For any item, until the stop is requested.
    pub fn new(longest: Duration, stop: &'s Stop) -> Self {
        Self { longest, stop, haste: None }
    }

    /// For more items than there are, until it is asked for haste.
    pub(crate) fn for_more(longest: Duration, stop: &'s Stop, haste: u64) -> Self {
        Self { longest, stop, haste: Some(haste) }
    }

    /// How long at most.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns when it is not to be waited any longer, however little time has passed.
    pub async fn cut_short(&self) {
        match self.haste {
            Some(since) => self.stop.hurried(since).await,
            None => {
                self.stop.requested().await;
            }
        }
    }
}

/// How an item ended.
#[derive(Debug, Clone)]
pub struct Ended<N> {
    /// Which.
    pub receipt: Receipt,
    /// What is to become of it.
    pub verdict: Verdict,
    /// What became of it, in a word.
    pub outcome: &'static str,
    /// What the stage has to say to the source.
    pub note: N,
    /// Whether the others of its group wait with an item that is deferred.
    pub holds_group: bool,
}

/// A queue of a broker as a source.
#[derive(Debug)]
pub struct QueueSource {
    broker: Arc<dyn Broker>,
    spec: QueueSpec,
}

impl QueueSource {
    /// The queue of this spec, which has been declared.
    pub fn new(broker: Arc<dyn Broker>, spec: QueueSpec) -> Self {
        Self { broker, spec }
    }
}

#[async_trait::async_trait]
impl Source<()> for QueueSource {
    fn name(&self) -> &str {
        self.spec.name.as_str()
    }

    fn lease(&self) -> Duration {
        self.spec.lease
    }

    fn max_attempts(&self) -> u32 {
        self.spec.max_attempts
    }

    async fn take(&self, max: usize, wait: Wait<'_>) -> Result<Vec<Delivery>, BrokerError> {
        tokio::select! {
            received = self.broker.receive(&self.spec.name, max, wait.longest()) => received,
            // A call that is given up has taken nothing.
            () = wait.cut_short() => Ok(Vec::new()),
        }
    }

    async fn settle(&self, ended: &[Ended<()>]) -> Vec<Result<Settled, SettleError>> {
        let verdicts = ended.iter().map(|ended| (ended.receipt.clone(), ended.verdict.clone())).collect();
        self.broker.settle(verdicts).await
    }

    async fn extend(&self, receipts: &[Receipt]) -> Vec<Result<(), SettleError>> {
        self.broker.extend(receipts, self.spec.lease).await
    }

    async fn alone(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.broker.alone(receipt).await
    }
}
