//! The queue contract: one trait that the embedded queue, RabbitMQ, Kafka and SQS FIFO all honour.
//!
//! What each of them can hold natively, emulates or refuses is written down in `docs/guarantees.md`;
//! [`Broker::guarantees`] says the same to programs, and the conformance suite (crate
//! `crawlway-broker-conformance`) holds every backend to it. This crate knows nothing of crawling and never looks into a body.

pub mod dead;
mod depth;
mod error;
pub mod guarantees;
mod limited;
pub mod limits;
mod message;
mod name;
mod spec;
mod topic;
mod verdict;

pub use bytes::Bytes;
pub use crawlway_clock::Timestamp;
pub use crawlway_suspects as suspects;
pub use dead::{Cause, DeadFilter, DeadId, DeadLetter, DeadPage, Failure, Replayed};
pub use depth::{Depth, Rates};
pub use error::{BrokerError, PublishError, SettleError};
pub use guarantees::{Aspect, Guarantees, Support};
pub use limited::Limited;
pub use message::{Delivery, Headers, Message, MessageId, Outgoing, Receipt, Target};
pub use name::{ExchangeName, NameError, QueueName};
pub use spec::{Binding, MaxLength, QueueSpec};
pub use topic::{PatternError, TopicPattern};
pub use verdict::{Settled, Verdict};

use std::{fmt::Debug, time::Duration};

/// A message broker, as the flows see it. At least once, never less.
///
/// All methods take `&self` and may be called from any number of tasks. Batches go in and results come
/// out in the same order, one per element; an empty batch is answered with an empty result at no cost.
#[async_trait::async_trait]
pub trait Broker: Debug + Send + Sync {
    /// What this broker holds, aspect by aspect. Never changes while the broker is open.
    fn guarantees(&self) -> Guarantees;

    /// Creates the queues, or checks that they exist as asked for.
    ///
    /// All or nothing is not promised across queues; each single queue is. A spec that this broker
    /// cannot honour is refused with [`BrokerError::Refused`] and leaves that queue as it was.
    /// Declaring a queue again the same way does nothing.
    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError>;

    /// The queues this broker handle knows, sorted by name.
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError>;

    /// Says no when the broker is known to be away just now, and asks nobody, so that whoever has no time to wait for a
    /// lost connection need not. Yes promises nothing. What is part of the process is never away.
    fn reachable(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    /// Says no when it is known that what is published now would not be kept, such as on a disk that is full, and publishes nothing
    /// to find out. Yes promises nothing. It is what health asks; publishing may be tried all the same.
    fn takes_messages(&self) -> Result<(), BrokerError> {
        self.reachable()
    }

    /// Publishes each message; `Ok` means that it is durable in every queue it was routed to.
    ///
    /// One message's failure does not stop the others. After [`PublishError::Unknown`] the message may
    /// or may not have arrived: publish it again under the same id.
    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>>;

    /// Takes up to `max` messages that are ready.
    ///
    /// A message whose receivers were lost before takes more than one of the `max` places, see [`suspects`].
    ///
    /// Returns as soon as there is one, and with an empty vector once `wait` has passed without any,
    /// at once when `max` is 0. Never returns more than the queue's prefetch allows this handle to hold
    /// unsettled; waits likewise while the allowance is used up or the queue is paused. Each delivery
    /// is leased: settle or [`extend`](Broker::extend) it before [`Delivery::lease_until`].
    ///
    /// It may be given up at any time: a call that is dropped before it has returned has taken nothing.
    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError>;

    /// Settles each delivery. [`SettleError::Fenced`] means that the lease was lost before: the message
    /// is, or was, somebody else's, and this verdict had no effect.
    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<Settled, SettleError>>;

    /// Gives each delivery a new lease of this length from now on.
    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>>;

    /// Notes, durably, that the receiver's process runs nothing but this delivery from now on until it is settled. If the process
    /// is lost meanwhile that is a solo crash; after [`QueueSpec::max_solo_crashes`] of them the message is dead
    /// ([`Cause::WorkerLost`]). A lease that ends while the process lives counts nothing.
    async fn alone(&self, receipt: &Receipt) -> Result<(), SettleError>;

    /// How much waits, is in flight, delayed and dead.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError>;

    /// About how many messages wait in a queue: all that are ready, and maybe those that wait for their time. Cheap enough to be
    /// asked before each take, which [`depth`](Broker::depth) is not everywhere.
    async fn waiting(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        Ok(self.depth(queue).await?.waiting())
    }

    /// Throws away what waits (ready and delayed) and says how many that were. Neither deliveries in
    /// flight nor dead letters are touched.
    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError>;

    /// Stops deliveries from this queue until [`resume`](Broker::resume); publishing goes on. Kept across restarts.
    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// Ends a pause. Resuming a queue that is not paused does nothing.
    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError>;

    /// Lists dead letters of this queue, oldest first, up to `limit` of those that match, after `after`.
    /// Listing takes nothing: the letters stay. After an id that this broker never gave there are none.
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError>;

    /// Puts the matching dead letters back into their queue with their attempts reset, keeping id, key,
    /// group, headers and body. A letter leaves the dead ones only once it is durable in the queue.
    async fn replay(&self, queue: &QueueName, filter: &DeadFilter) -> Result<Replayed, BrokerError>;

    /// Throws the matching dead letters away for good and says how many that were.
    async fn drop_dead(&self, queue: &QueueName, filter: &DeadFilter) -> Result<u64, BrokerError>;

    /// Finishes what was accepted and lets go of files and connections. What is still in flight comes
    /// back; where that can be told from a crash it counts nothing. Every later call fails with `Closed`.
    async fn close(&self) -> Result<(), BrokerError>;
}
