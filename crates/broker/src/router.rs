//! Several brokers behind one: each queue lives on one of them.

use crate::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery, Depth,
    Guarantees, Outgoing, PublishError, QueueAdmin, QueueBackend, QueueName, QueueSpec, Receipt,
    ReplayOutcome, SettleError, SettleOutcome, Target, Verdict,
};
use futures::future::join_all;
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Position of a broker in the router. 0 is the default.
type Index = usize;

/// Router that dispatches by queue name: queues without an assignment live on the default broker.
///
/// A topic is published to every broker with a matching binding declared on this handle, or to the default broker if there
/// is none. Publishing to several brokers is not atomic: after a failure some of the bound queues may have the message.
#[derive(Debug)]
pub struct BrokerRouter {
    brokers: Vec<Arc<dyn QueueBackend>>,
    assigned: BTreeMap<QueueName, Index>,
    /// Specs with bindings, declared on this handle.
    bound: RwLock<BTreeMap<QueueName, QueueSpec>>,
}

/// Elements of a batch that belong to one broker, with their positions in the batch.
struct Part<T> {
    index: Index,
    positions: Vec<usize>,
    elements: Vec<T>,
}

/// Results of the parts in the order of the batch.
fn merge<R>(parts: Vec<(Vec<usize>, Vec<R>)>) -> Vec<R> {
    let mut results: Vec<(usize, R)> =
        parts.into_iter().flat_map(|(positions, results)| positions.into_iter().zip(results)).collect();
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

impl BrokerRouter {
    /// A router with this default broker only.
    pub fn new(default: Arc<dyn QueueBackend>) -> Self {
        Self { brokers: vec![default], assigned: BTreeMap::new(), bound: RwLock::default() }
    }

    /// Adds a broker with these queues. A queue that was assigned before moves to it.
    pub fn assign(
        mut self,
        broker: Arc<dyn QueueBackend>,
        queues: impl IntoIterator<Item = QueueName>,
    ) -> Self {
        let index = self.brokers.len();
        self.brokers.push(broker);
        self.assigned.extend(queues.into_iter().map(|queue| (queue, index)));
        self
    }

    /// The broker of a queue.
    pub fn of(&self, queue: &QueueName) -> &Arc<dyn QueueBackend> {
        &self.brokers[self.index(queue)]
    }

    fn index(&self, queue: &QueueName) -> Index {
        self.assigned.get(queue).copied().unwrap_or(0)
    }

    /// Brokers that a message goes to, at least one.
    fn targets(&self, target: &Target) -> BTreeSet<Index> {
        match target {
            Target::Queue(queue) => BTreeSet::from([self.index(queue)]),
            Target::Topic { .. } => {
                let bound = self.bound.read();
                let matching = bound.values().filter(|spec| spec.is_routed(target));
                let found: BTreeSet<Index> = matching.map(|spec| self.index(&spec.name)).collect();
                if found.is_empty() { BTreeSet::from([0]) } else { found }
            }
        }
    }

    /// Splits a batch by broker.
    fn split<T>(&self, batch: Vec<T>, index: impl Fn(&T) -> Index) -> Vec<Part<T>> {
        let mut parts: Vec<Part<T>> = Vec::new();
        for (position, element) in batch.into_iter().enumerate() {
            let index = index(&element);
            let at = parts.iter().position(|part| part.index == index).unwrap_or_else(|| {
                parts.push(Part { index, positions: Vec::new(), elements: Vec::new() });
                parts.len() - 1
            });
            parts[at].positions.push(position);
            parts[at].elements.push(element);
        }
        parts
    }

    /// First error of all brokers.
    fn check_all(
        &self,
        check: impl Fn(&dyn QueueBackend) -> Result<(), BrokerError>,
    ) -> Result<(), BrokerError> {
        self.brokers.iter().try_for_each(|broker| check(&**broker))
    }
}

#[async_trait::async_trait]
impl Broker for BrokerRouter {
    /// Guarantees of the default broker.
    fn guarantees(&self) -> Guarantees {
        self.brokers[0].guarantees()
    }

    fn guarantees_of(&self, queue: &QueueName) -> Guarantees {
        self.of(queue).guarantees()
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        for (index, broker) in self.brokers.iter().enumerate() {
            let here: Vec<QueueSpec> =
                queues.iter().filter(|spec| self.index(&spec.name) == index).cloned().collect();
            if here.is_empty() {
                continue;
            }
            broker.declare(&here).await?;
            let mut bound = self.bound.write();
            for spec in here {
                bound.remove(&spec.name);
                if !spec.bindings.is_empty() {
                    bound.insert(spec.name.clone(), spec);
                }
            }
        }
        Ok(())
    }

    fn reachable(&self) -> Result<(), BrokerError> {
        self.check_all(|broker| broker.reachable())
    }

    fn reachable_for(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.of(queue).reachable()
    }

    fn accepts_publishes(&self) -> Result<(), BrokerError> {
        self.check_all(|broker| broker.accepts_publishes())
    }

    fn accepts_publishes_for(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.of(queue).accepts_publishes()
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        if self.brokers.len() == 1 {
            return self.brokers[0].publish(batch).await;
        }
        // One copy for each broker that a message goes to.
        let mut copies: Vec<(usize, Index, Outgoing)> = Vec::with_capacity(batch.len());
        for (position, message) in batch.into_iter().enumerate() {
            copies.extend(
                self.targets(&message.to).into_iter().map(|index| (position, index, message.clone())),
            );
        }
        let positions: Vec<usize> = copies.iter().map(|(position, ..)| *position).collect();
        let parts = self.split(copies, |(_, index, _)| *index);
        let publish = |part: Part<(usize, Index, Outgoing)>| async move {
            let messages = part.elements.into_iter().map(|(.., message)| message).collect();
            (part.positions, self.brokers[part.index].publish(messages).await)
        };
        let results = merge(join_all(parts.into_iter().map(publish)).await);
        let mut merged: Vec<Result<(), PublishError>> = Vec::new();
        for (position, result) in positions.into_iter().zip(results) {
            match merged.get_mut(position) {
                Some(first) => *first = first.clone().and(result),
                None => merged.push(result),
            }
        }
        merged
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        self.of(queue).receive(queue, max, wait).await
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>> {
        let parts = self.split(verdicts, |(receipt, _)| self.index(&receipt.queue));
        let settle = |part: Part<_>| async move {
            (part.positions, self.brokers[part.index].settle(part.elements).await)
        };
        merge(join_all(parts.into_iter().map(settle)).await)
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let parts = self.split(receipts.to_vec(), |receipt| self.index(&receipt.queue));
        let extend = |part: Part<Receipt>| async move {
            (part.positions, self.brokers[part.index].extend(&part.elements, lease).await)
        };
        merge(join_all(parts.into_iter().map(extend)).await)
    }

    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.of(&receipt.queue).mark_solo(receipt).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        let closed = join_all(self.brokers.iter().map(|broker| broker.close())).await;
        closed.into_iter().collect()
    }
}

#[async_trait::async_trait]
impl QueueAdmin for BrokerRouter {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        let mut queues = Vec::new();
        for (index, broker) in self.brokers.iter().enumerate() {
            // A queue of the same name on a broker that it is not assigned to is not ours.
            queues.extend(broker.queues().await?.into_iter().filter(|spec| self.index(&spec.name) == index));
        }
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(queues)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        self.of(queue).depth(queue).await
    }

    async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.of(queue).pending(queue).await
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.of(queue).purge(queue).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.of(queue).pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.of(queue).resume(queue).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for BrokerRouter {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        self.of(queue).dead_letters(queue, filter, after, limit).await
    }

    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        self.of(queue).replay(queue, filter).await
    }

    async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        self.of(queue).drop_dead_letters(queue, filter).await
    }
}
