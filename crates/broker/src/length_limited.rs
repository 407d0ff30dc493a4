//! Maximum queue length for brokers without one, enforced by publishers from the queue depth.

use crate::{
    Aspect, Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery,
    Depth, Guarantees, MaxLength, Outgoing, PublishError, QueueAdmin, QueueBackend, QueueName, QueueSpec,
    Receipt, ReplayOutcome, SettleError, SettleOutcome, Verdict,
};
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Adapter that adds an approximate maximum length to a broker that has none.
///
/// A handle publishes to a queue with a maximum length in batches of [`STEP`](Self::STEP) and reads the depth before
/// each. Every other handle that publishes at the same time can therefore exceed the maximum by one batch; this is the
/// [`Guarantees::max_length_slack`]. Where the depth lags, recently published messages of this handle count on top, so
/// that the queue rejects slightly early rather than late. Redeliveries are not publishes and are always accepted.
#[derive(Debug)]
pub struct LengthLimited<B> {
    inner: B,
    guarantees: Guarantees,
    /// Declared specs of the queues.
    specs: RwLock<BTreeMap<QueueName, QueueSpec>>,
    /// Publishes per queue that the depth may not include yet. The lock serialises publishers to queues with a maximum.
    unseen_publishes: Mutex<BTreeMap<QueueName, VecDeque<(Instant, u64)>>>,
}

impl<B: QueueBackend> LengthLimited<B> {
    /// Number of messages published per depth reading.
    pub const STEP: usize = 10;

    /// Wraps a broker. `guarantees` are those of the wrapped broker with an approximate instead of an exact maximum
    /// length.
    pub fn new(inner: B, guarantees: Guarantees) -> Self {
        Self { inner, guarantees, specs: RwLock::default(), unseen_publishes: Mutex::default() }
    }

    /// The wrapped broker.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Queues with a maximum length that a message is routed to, with that maximum.
    fn limited_queues(&self, message: &Outgoing) -> Vec<(QueueName, u64)> {
        let specs = self.specs.read();
        let with_limit = |spec: &QueueSpec| Some((spec.name.clone(), spec.max_length?.limit()));
        specs.values().filter(|spec| spec.is_routed(&message.to)).filter_map(with_limit).collect()
    }

    /// Refuses a maximum length that cannot be honoured.
    fn check_limit(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        let refused = |aspect, why: String| BrokerError::Refused { queue: spec.name.clone(), aspect, why };
        match spec.max_length {
            None => Ok(()),
            Some(MaxLength::Exact(_)) => Err(refused(
                Aspect::MaxLengthExact,
                "publishers enforce it from the queue depth; use an approximate maximum length".to_owned(),
            )),
            Some(MaxLength::Approximate { slack, .. }) if slack < self.guarantees.max_length_slack => {
                let min_slack = self.guarantees.max_length_slack;
                Err(refused(
                    Aspect::MaxLengthApproximate,
                    format!(
                        "it may be exceeded by {min_slack}, and the allowed slack is {slack}; allow {min_slack} or more"
                    ),
                ))
            }
            Some(MaxLength::Approximate { .. }) => Ok(()),
        }
    }

    /// Publishes one batch after one depth reading.
    async fn publish_batch(&self, messages: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        let mut sent = self.unseen_publishes.lock().await;
        let mut room: BTreeMap<QueueName, u64> = BTreeMap::new();
        let mut counted: BTreeMap<QueueName, u64> = BTreeMap::new();
        let mut refused: Vec<Option<PublishError>> = Vec::with_capacity(messages.len());
        let mut admitted = Vec::new();
        for message in messages {
            let queues = self.limited_queues(&message);
            match self.admit(&queues, &mut room, &mut sent).await {
                Ok(()) => {
                    for (queue, _) in queues {
                        *counted.entry(queue).or_default() += 1;
                    }
                    admitted.push(message);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let mut outcomes = self.inner.publish(admitted).await.into_iter();
        let now = Instant::now();
        for (queue, count) in counted {
            sent.entry(queue).or_default().push_back((now, count));
        }
        let no_answer = || Err(PublishError::Unconfirmed { detail: "the broker gave no answer".to_owned() });
        refused
            .into_iter()
            .map(|refused| match refused {
                Some(error) => Err(error),
                None => outcomes.next().unwrap_or_else(no_answer),
            })
            .collect()
    }

    /// Reserves one place in each of these queues, or in none.
    async fn admit(
        &self,
        queues: &[(QueueName, u64)],
        room: &mut BTreeMap<QueueName, u64>,
        sent: &mut BTreeMap<QueueName, VecDeque<(Instant, u64)>>,
    ) -> Result<(), PublishError> {
        for (queue, limit) in queues {
            if !room.contains_key(queue) {
                let depth = self.inner.depth(queue).await.map_err(|error| match error {
                    BrokerError::Closed => PublishError::Closed,
                    other => PublishError::Unavailable { detail: other.to_string() },
                })?;
                let unseen = unseen(sent.entry(queue.clone()).or_default(), self.guarantees.depth_lag);
                room.insert(queue.clone(), limit.saturating_sub(depth.pending()).saturating_sub(unseen));
            }
            if room.get(queue) == Some(&0) {
                return Err(PublishError::QueueFull { queue: queue.clone(), limit: *limit });
            }
        }
        for (queue, _) in queues {
            if let Some(left) = room.get_mut(queue) {
                *left -= 1;
            }
        }
        Ok(())
    }
}

/// Number of published messages that a depth with this lag may not include yet.
fn unseen(sent: &mut VecDeque<(Instant, u64)>, lag: Duration) -> u64 {
    while sent.front().is_some_and(|(when, _)| when.elapsed() >= lag) {
        sent.pop_front();
    }
    sent.iter().map(|(_, count)| count).sum()
}

#[async_trait::async_trait]
impl<B: QueueBackend> Broker for LengthLimited<B> {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        for spec in queues {
            spec.check()?;
            self.check_limit(spec)?;
            let plain = QueueSpec { max_length: None, ..spec.clone() };
            self.inner.declare(std::slice::from_ref(&plain)).await?;
            let mut specs = self.specs.write();
            match specs.get(&spec.name) {
                Some(declared) if declared.max_length != spec.max_length => {
                    let difference = format!(
                        "its maximum length is {:?}, {:?} was requested; declare the same everywhere",
                        declared.max_length, spec.max_length
                    );
                    return Err(BrokerError::Mismatch { queue: spec.name.clone(), difference });
                }
                _ => drop(specs.insert(spec.name.clone(), spec.clone())),
            }
        }
        Ok(())
    }

    fn reachable(&self) -> Result<(), BrokerError> {
        self.inner.reachable()
    }

    fn accepts_publishes(&self) -> Result<(), BrokerError> {
        self.inner.accepts_publishes()
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        if batch.iter().all(|message| self.limited_queues(message).is_empty()) {
            return self.inner.publish(batch).await;
        }
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut rest = batch.into_iter();
        loop {
            let some: Vec<Outgoing> = rest.by_ref().take(Self::STEP).collect();
            if some.is_empty() {
                return outcomes;
            }
            outcomes.extend(self.publish_batch(some).await);
        }
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        self.inner.receive(queue, max, wait).await
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>> {
        self.inner.settle(verdicts).await
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
impl<B: QueueBackend> QueueAdmin for LengthLimited<B> {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        let mut queues = self.inner.queues().await?;
        let specs = self.specs.read();
        for spec in &mut queues {
            spec.max_length = specs.get(&spec.name).and_then(|declared| declared.max_length);
        }
        Ok(queues)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        self.inner.depth(queue).await
    }

    async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.inner.pending(queue).await
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
impl<B: QueueBackend> DeadLetters for LengthLimited<B> {
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
