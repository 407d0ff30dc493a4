//! Sources: a queue, or a store that behaves like one, from which a stage receives items.

use crate::Shutdown;
use crawlway_broker::{
    Broker, BrokerError, Delivery, QueueSpec, Receipt, SettleError, SettleOutcome, Verdict,
};
use std::{fmt::Debug, sync::Arc, time::Duration};

/// Source of a stage's items. `N` is the data it gets with an item that is done.
#[async_trait::async_trait]
pub trait Source<N>: Debug + Send + Sync + 'static {
    /// Name, as in `crawlway queues`.
    fn name(&self) -> &str;

    /// Lease of a received item.
    fn lease(&self) -> Duration;

    /// Maximum number of attempts per item.
    fn max_attempts(&self) -> u32;

    /// Receives up to `max` items: as soon as there is one, or none when the wait ends.
    async fn receive(&self, max: usize, wait: ReceiveWait<'_>) -> Result<Vec<Delivery>, BrokerError>;

    /// Settles items; one answer each, in order.
    async fn settle(&self, settlements: &[Settlement<N>]) -> Vec<Result<SettleOutcome, SettleError>>;

    /// Extends leases; one answer each, in order.
    async fn extend(&self, receipts: &[Receipt]) -> Vec<Result<(), SettleError>>;

    /// Marks an item durably as running solo until it is settled, see [`Broker::mark_solo`].
    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError>;
}

/// Maximum wait of a receive call, with the signals that end it early.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveWait<'s> {
    max: Duration,
    stop: &'s Shutdown,
    /// Flush count at the start of a batch that waits for more items.
    batch_since: Option<u64>,
}

impl<'s> ReceiveWait<'s> {
    /// Wait that a shutdown ends early.
    pub fn new(max: Duration, stop: &'s Shutdown) -> Self {
        Self { max, stop, batch_since: None }
    }

    /// Wait for more items of a batch, which a flush ends early too.
    pub(crate) fn for_batch(max: Duration, stop: &'s Shutdown, flush_count: u64) -> Self {
        Self { max, stop, batch_since: Some(flush_count) }
    }

    /// Maximum duration.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Completes when a shutdown or flush ends the wait early.
    pub async fn cancelled(&self) {
        match self.batch_since {
            Some(since) => self.stop.flushed(since).await,
            None => {
                self.stop.requested().await;
            }
        }
    }
}

/// Verdict on a processed item, for its source.
#[derive(Debug, Clone)]
pub struct Settlement<N> {
    /// Receipt of the item.
    pub receipt: Receipt,
    /// Verdict.
    pub verdict: Verdict,
    /// Outcome as one word.
    pub outcome: &'static str,
    /// Data from the stage.
    pub note: N,
    /// Whether a deferral applies to the whole group of the item.
    pub defers_group: bool,
}

/// Queue of a broker as a source.
#[derive(Debug)]
pub struct QueueSource {
    broker: Arc<dyn Broker>,
    spec: QueueSpec,
}

impl QueueSource {
    /// Source on the declared queue of this spec.
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

    async fn receive(&self, max: usize, wait: ReceiveWait<'_>) -> Result<Vec<Delivery>, BrokerError> {
        tokio::select! {
            received = self.broker.receive(&self.spec.name, max, wait.max()) => received,
            // `Broker::receive` is cancel-safe: a dropped call has received nothing.
            () = wait.cancelled() => Ok(Vec::new()),
        }
    }

    async fn settle(&self, settlements: &[Settlement<()>]) -> Vec<Result<SettleOutcome, SettleError>> {
        let verdicts = settlements.iter().map(|one| (one.receipt.clone(), one.verdict.clone())).collect();
        self.broker.settle(verdicts).await
    }

    async fn extend(&self, receipts: &[Receipt]) -> Vec<Result<(), SettleError>> {
        self.broker.extend(receipts, self.spec.lease).await
    }

    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.broker.mark_solo(receipt).await
    }
}
