//! The queue contract, which the embedded queue and RabbitMQ implement: [`Broker`] moves messages, [`QueueAdmin`]
//! manages queues, [`DeadLetters`] manages dead letters. A [`QueueBackend`] is all three.
//!
//! `docs/guarantees.md` lists what each backend supports natively, emulates or refuses; [`Broker::guarantees`] is the
//! same table in code. The conformance suite (crate `crawlway-broker-conformance`) tests every backend against it.
//! This crate does not depend on crawling and treats bodies as opaque bytes.

pub mod dead;
mod depth;
mod error;
mod forward;
pub mod guarantees;
pub mod history;
mod length_limited;
pub mod limits;
mod local_queues;
mod message;
mod name;
mod router;
mod spec;
mod topic;
mod verdict;

pub use bytes::Bytes;
pub use crawlway_clock::Timestamp;
pub use crawlway_suspects as suspects;
pub use dead::{
    DeadLetter, DeadLetterCause, DeadLetterFilter, DeadLetterId, DeadLetterPage, Death, Failure,
    ReplayOutcome,
};
pub use depth::{Depth, Rates};
pub use error::{BrokerError, PublishError, SettleError};
pub use guarantees::{Aspect, Guarantees, Support};
pub use length_limited::LengthLimited;
pub use local_queues::LocalQueues;
pub use message::{Defect, Delivery, Headers, Message, MessageId, Outgoing, Receipt, Target};
pub use name::{ExchangeName, NameError, QueueName};
pub use router::BrokerRouter;
pub use spec::{Binding, MaxLength, Ordering, OrderingNeeds, QueueSpec};
pub use topic::{PatternError, TopicPattern};
pub use verdict::{SettleOutcome, Verdict};

use std::{fmt::Debug, time::Duration};

/// A message broker with at-least-once delivery.
///
/// All methods take `&self` and can be called concurrently. A batch returns one result per element, in the same
/// order; an empty batch returns an empty result without I/O.
#[async_trait::async_trait]
pub trait Broker: Debug + Send + Sync {
    /// Guarantees of this broker. Constant while it is open.
    fn guarantees(&self) -> Guarantees;

    /// Guarantees for one queue: those of the broker that it lives on, which differ from [`guarantees`](Broker::guarantees) if
    /// this is a router.
    fn guarantees_of(&self, _queue: &QueueName) -> Guarantees {
        self.guarantees()
    }

    /// Declares queues: creates them, or verifies that they exist with these settings.
    ///
    /// Each queue is declared atomically, the batch is not. A spec that this broker cannot honour fails with
    /// [`BrokerError::Refused`] and changes nothing for that queue. Declaring is idempotent.
    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError>;

    /// Whether the connection is up, without I/O: fails fast while the broker is known to be unreachable. `Ok` is
    /// no promise. An in-process broker is always reachable.
    fn reachable(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    /// As [`reachable`](Broker::reachable), for the broker that this queue lives on alone.
    fn reachable_for(&self, _queue: &QueueName) -> Result<(), BrokerError> {
        self.reachable()
    }

    /// Whether publishes are currently accepted, without publishing: fails on a full disk, for example. `Ok` is no
    /// promise. Health checks use it; publishing does not depend on it.
    fn accepts_publishes(&self) -> Result<(), BrokerError> {
        self.reachable()
    }

    /// As [`accepts_publishes`](Broker::accepts_publishes), for the broker that this queue lives on alone.
    fn accepts_publishes_for(&self, _queue: &QueueName) -> Result<(), BrokerError> {
        self.accepts_publishes()
    }

    /// Publishes messages with publisher confirms: `Ok` means durable in every queue that the message is routed to.
    ///
    /// Messages fail independently. After [`PublishError::Unconfirmed`] the message may have been stored: publish it again
    /// under the same id.
    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>>;

    /// Receives up to `max` ready messages.
    ///
    /// Returns as soon as one message is available. Returns an empty vector after `wait`, or at once if `max` is 0.
    /// Also waits while the queue is paused or while this handle has `prefetch` unsettled deliveries. A suspect message
    /// counts as more than one of `max`, see [`suspects`]. Each delivery has a lease: settle or
    /// [`extend`](Broker::extend) it before [`Delivery::lease_until`].
    ///
    /// Cancel-safe: a call that is dropped before it returns has taken no message.
    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError>;

    /// Settles deliveries. [`SettleError::Fenced`] means that the lease ended before: the message may be with another
    /// consumer, and the verdict had no effect.
    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>>;

    /// Extends leases: each delivery gets a lease of this length from now.
    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>>;

    /// Marks a delivery as solo, durably: from now until it is settled, the consumer's process runs nothing else. A
    /// crash of the process in that time is a solo crash; after [`QueueSpec::max_solo_crashes`] of them the message is
    /// a dead letter ([`DeadLetterCause::WorkerLost`]). A lease that ends while the process lives is not counted.
    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError>;

    /// Closes the broker: finishes accepted writes and releases files and connections. Deliveries in flight are
    /// redelivered, uncounted where a close can be told from a crash. Every later call fails with `Closed`.
    async fn close(&self) -> Result<(), BrokerError>;
}

/// Administration of queues: depth, purge, pause.
#[async_trait::async_trait]
pub trait QueueAdmin: Debug + Send + Sync {
    /// Queues declared on this handle, sorted by name.
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError>;

    /// Queue depth: ready, in flight, delayed and dead messages.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError>;

    /// Approximate number of pending messages: all ready ones, and possibly delayed ones. Cheap enough to call before
    /// each receive, unlike [`depth`](QueueAdmin::depth) on some brokers.
    async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        Ok(self.depth(queue).await?.pending())
    }

    /// Deletes all pending messages (ready and delayed) and returns their number. Deliveries in flight and dead
    /// letters stay.
    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError>;

    /// Pauses deliveries until [`resume`](QueueAdmin::resume). Publishing continues. Survives restarts.
    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// Resumes deliveries. Does nothing if the queue is not paused.
    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError>;
}

/// Administration of the dead letters of queues.
#[async_trait::async_trait]
pub trait DeadLetters: QueueAdmin {
    /// Lists up to `limit` matching dead letters, oldest first, after the cursor `after`. An unknown cursor gives an
    /// empty page.
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError>;

    /// Replays matching dead letters: puts them back into their queue with attempts reset and id, key, group, headers
    /// and body unchanged. A dead letter is removed only after it is durable in the queue.
    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError>;

    /// Deletes matching dead letters and returns their number.
    async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError>;
}

/// A complete backend: messages, queues and dead letters. Implemented for whatever implements the three contracts.
pub trait QueueBackend: Broker + DeadLetters {}

impl<B: Broker + DeadLetters> QueueBackend for B {}
