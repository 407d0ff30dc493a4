//! Embedded broker with fault injection.

use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery, Depth,
    Guarantees, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, Receipt, ReplayOutcome,
    SettleError, SettleOutcome, Verdict,
};
use crawlway_broker_embedded::EmbeddedBroker;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    time::Duration,
};

const OFF: &str = "switched off";

#[derive(Debug)]
pub(crate) struct FaultyBroker {
    inner: EmbeddedBroker,
    /// Switches of the calls that fail.
    pub(crate) no_publish: AtomicBool,
    pub(crate) no_receive: AtomicBool,
    pub(crate) no_settle: AtomicBool,
    pub(crate) no_extend: AtomicBool,
    pub(crate) no_replay: AtomicBool,
    /// Number of calls, failed ones included.
    pub(crate) publishes: AtomicU64,
    pub(crate) receives: AtomicU64,
    pub(crate) settles: AtomicU64,
    pub(crate) extends: AtomicU64,
}

impl FaultyBroker {
    pub(crate) fn new(inner: EmbeddedBroker) -> Self {
        Self {
            inner,
            no_publish: AtomicBool::new(false),
            no_receive: AtomicBool::new(false),
            no_settle: AtomicBool::new(false),
            no_extend: AtomicBool::new(false),
            no_replay: AtomicBool::new(false),
            publishes: AtomicU64::new(0),
            receives: AtomicU64::new(0),
            settles: AtomicU64::new(0),
            extends: AtomicU64::new(0),
        }
    }

    /// Broker without faults.
    pub(crate) fn inner(&self) -> &EmbeddedBroker {
        &self.inner
    }

    /// Switches all calls of a runner.
    pub(crate) fn down(&self, down: bool) {
        for switch in [&self.no_publish, &self.no_receive, &self.no_settle, &self.no_extend] {
            switch.store(down, SeqCst);
        }
    }
}

#[async_trait::async_trait]
impl Broker for FaultyBroker {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.inner.declare(queues).await
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        self.publishes.fetch_add(1, SeqCst);
        if self.no_publish.load(SeqCst) {
            return batch.iter().map(|_| Err(PublishError::Unavailable { detail: OFF.into() })).collect();
        }
        self.inner.publish(batch).await
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        self.receives.fetch_add(1, SeqCst);
        if self.no_receive.load(SeqCst) {
            return Err(BrokerError::Unavailable { detail: OFF.into() });
        }
        self.inner.receive(queue, max, wait).await
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>> {
        self.settles.fetch_add(1, SeqCst);
        if self.no_settle.load(SeqCst) {
            return verdicts.iter().map(|_| Err(SettleError::Unavailable { detail: OFF.into() })).collect();
        }
        self.inner.settle(verdicts).await
    }

    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.inner.mark_solo(receipt).await
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let answers = if self.no_extend.load(SeqCst) {
            receipts.iter().map(|_| Err(SettleError::Unavailable { detail: OFF.into() })).collect()
        } else {
            self.inner.extend(receipts, lease).await
        };
        // Counted afterwards, so that the number includes completed calls only.
        self.extends.fetch_add(1, SeqCst);
        answers
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}

#[async_trait::async_trait]
impl QueueAdmin for FaultyBroker {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.inner.queues().await
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        self.inner.depth(queue).await
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.inner.purge(queue).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.inner.pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.inner.resume(queue).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for FaultyBroker {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        self.inner.dead_letters(queue, filter, after, limit).await
    }

    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        if self.no_replay.load(SeqCst) {
            return Err(BrokerError::Unavailable { detail: OFF.into() });
        }
        self.inner.replay(queue, filter).await
    }

    async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        self.inner.drop_dead_letters(queue, filter).await
    }
}
