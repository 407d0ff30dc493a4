//! Fault injection: the embedded queue with one violation of the contract.

use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery, Depth,
    Guarantees, MaxLength, Ordering, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, Receipt,
    ReplayOutcome, SettleError, SettleOutcome, Verdict,
};
use crawlway_broker_embedded::EmbeddedBroker;
use std::{sync::Arc, time::Duration};

/// A violation of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    LosesAHeader,
    LosesOneInTen,
    IgnoresOrdering,
    IgnoresPrefetch,
    AcceptsFencedVerdicts,
    ForgetsSettlesInAnOutage,
    RetryCountsNothing,
    LostWorkerCounts,
    RetryIsEarly,
    IgnoresNotBefore,
    LimitIsOneTooHigh,
    LosesTheFirstError,
    ReplayKeepsAttempts,
    PauseDoesNothing,
    DepthIsConstant,
}

#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) inner: Arc<EmbeddedBroker>,
    pub(crate) fault: Fault,
}

/// Longer than any case.
const LONG_LEASE: Duration = Duration::from_secs(1_000_000);

impl Faulty {
    async fn settle_one(&self, receipt: Receipt, verdict: Verdict) -> Result<SettleOutcome, SettleError> {
        let verdict = match (self.fault, verdict) {
            // The message stays in flight and is redelivered after the outage.
            (Fault::ForgetsSettlesInAnOutage, Verdict::Done) => {
                return self
                    .inner
                    .extend(&[receipt], LONG_LEASE)
                    .await
                    .remove(0)
                    .map(|()| SettleOutcome::Done);
            }
            (Fault::RetryCountsNothing, Verdict::Retry { .. }) => {
                let requeued = self.inner.settle(vec![(receipt, Verdict::Requeue)]).await.remove(0);
                return requeued.map(|_| SettleOutcome::Retrying { attempt: 2 });
            }
            (Fault::RetryIsEarly, Verdict::Retry { after, error }) => {
                Verdict::Retry { after: after / 2, error }
            }
            (_, verdict) => verdict,
        };
        let settled = self.inner.settle(vec![(receipt, verdict)]).await.remove(0);
        match settled {
            Err(SettleError::Fenced { .. }) if self.fault == Fault::AcceptsFencedVerdicts => {
                Ok(SettleOutcome::Done)
            }
            settled => settled,
        }
    }
}

#[async_trait::async_trait]
impl Broker for Faulty {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        let mut queues = queues.to_vec();
        for spec in &mut queues {
            match (self.fault, spec.max_length) {
                (Fault::IgnoresPrefetch, _) => spec.prefetch = 1_000,
                (Fault::IgnoresOrdering, _) => spec.ordering = Ordering::None,
                (Fault::LimitIsOneTooHigh, Some(MaxLength::Exact(limit))) => {
                    spec.max_length = Some(MaxLength::Exact(limit + 1));
                }
                _ => {}
            }
        }
        self.inner.declare(&queues).await
    }

    async fn publish(&self, mut batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        let count = batch.len();
        match self.fault {
            Fault::LosesOneInTen => {
                batch.retain(|message| !message.id.as_str().ends_with('7'));
                let mut outcomes = self.inner.publish(batch).await;
                outcomes.resize(count, Ok(()));
                return outcomes;
            }
            Fault::IgnoresNotBefore => batch.iter_mut().for_each(|message| message.not_before = None),
            _ => {}
        }
        self.inner.publish(batch).await
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let mut got = self.inner.receive(queue, max, wait).await?;
        for delivery in &mut got {
            match self.fault {
                Fault::LosesAHeader => drop(delivery.message.headers.pop_last()),
                Fault::LostWorkerCounts => delivery.attempt += delivery.losses,
                Fault::ReplayKeepsAttempts => delivery.attempt += delivery.replays,
                _ => {}
            }
        }
        Ok(got)
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>> {
        let mut answers = Vec::new();
        for (receipt, verdict) in verdicts {
            answers.push(self.settle_one(receipt, verdict).await);
        }
        answers
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        self.inner.extend(receipts, lease).await
    }

    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.inner.mark_solo(receipt).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}

#[async_trait::async_trait]
impl QueueAdmin for Faulty {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.inner.queues().await
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let depth = self.inner.depth(queue).await?;
        Ok(if self.fault == Fault::DepthIsConstant { Depth::default() } else { depth })
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.inner.purge(queue).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        if self.fault == Fault::PauseDoesNothing { Ok(()) } else { self.inner.pause(queue).await }
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.inner.resume(queue).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for Faulty {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        let mut page = self.inner.dead_letters(queue, filter, after, limit).await?;
        if self.fault == Fault::LosesTheFirstError {
            page.letters.iter_mut().for_each(|letter| letter.first_error = letter.last_error.clone());
        }
        Ok(page)
    }

    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
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
