//! [`Backend`]: what each broker on top of the ledger does in its own way, and what follows from it.

use crate::{
    Claim, Deliveries, LedgerError, LocalQueue, MessageKey, Redelivery, ReplayCopy, Shared, dead_letters,
    receive, settle, watch,
};
use crawlway_broker::{
    BrokerError, DeadLetterFilter, Death, Delivery, Message, PublishError, QueueName, Receipt, ReplayOutcome,
    SettleError, SettleOutcome, Timestamp, Verdict, history::History,
};
use std::{fmt::Debug, ops::Deref, sync::Arc};

/// A received message, as a backend keeps it until it is settled.
pub trait Entry: Clone + Debug + Send + Sync + 'static {
    /// Key of the message in the ledger.
    fn key(&self, queue: &QueueName) -> MessageKey;

    /// The message.
    fn message(&self) -> &Message;

    /// History that came with the message.
    fn history(&self) -> &History;

    /// Number of lost workers, as far as it is known before the message is taken.
    fn losses(&mut self) -> &mut u32;

    /// Whether the server keeps it from other processes.
    fn is_held(&self, _now: Timestamp) -> bool {
        true
    }
}

/// State of a queue in a backend, under one lock.
pub trait State: Debug + Send + 'static {
    /// A received message.
    type Entry: Entry;

    /// What is ready and in flight.
    fn deliveries(&mut self) -> &mut Deliveries<Self::Entry>;

    /// Makes a message the first that is ready.
    fn put_back(&mut self, entry: Self::Entry, _now: Timestamp) {
        self.deliveries().ready.push_front(entry);
    }

    /// Whether a message is still assigned to this process.
    fn is_assigned(&mut self, _entry: &Self::Entry) -> bool {
        true
    }
}

/// Engine of a broker on top of the ledger. Dereferences to the part that is the same in all.
pub trait Backend: Deref<Target = Shared<Self>> + Debug + Send + Sync + Sized + 'static {
    /// Part of a queue that needs no lock, such as its names on the server.
    type Queue: Debug + Send + Sync + 'static;
    /// A received message.
    type Entry: Entry;
    /// State of a queue.
    type State: State<Entry = Self::Entry>;

    /// Puts off messages that other processes run solo, until these times.
    fn put_off(
        &self,
        local: &LocalQueue<Self>,
        busy: Vec<(Self::Entry, Timestamp)>,
    ) -> impl Future<Output = ()> + Send;

    /// Has messages delivered again, with their new histories. `true` if it is a copy, so that the delivery itself is to be finished.
    fn redeliver(
        &self,
        redeliveries: &[Redelivery<Self>],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<bool, SettleError>>> + Send;

    /// Settles deliveries of a queue on the server, and removes those that succeed from the ones in flight.
    fn finish(
        &self,
        local: &LocalQueue<Self>,
        claims: &[Claim<Self>],
    ) -> impl Future<Output = Vec<Result<(), SettleError>>> + Send;

    /// Publishes a copy of a dead letter for other programs.
    fn copy_dead(
        &self,
        claim: &Claim<Self>,
        history: &History,
        death: &Death,
    ) -> impl Future<Output = Result<(), SettleError>> + Send;

    /// Publishes replayed dead letters to their queue.
    fn publish_replays(
        &self,
        local: &LocalQueue<Self>,
        copies: Vec<ReplayCopy>,
    ) -> impl Future<Output = Vec<Result<(), PublishError>>> + Send;

    /// Looks for changes on the server, about once a second; now and then old data is removed, too.
    fn watch_server(self: &Arc<Self>, is_cleanup: bool) -> impl Future<Output = ()> + Send;

    /// Notes candidates in the ledger, and leases those that may run. Cancel-safe: those that are not returned become ready again.
    fn take(
        self: &Arc<Self>,
        local: &Arc<LocalQueue<Self>>,
        candidates: Vec<Self::Entry>,
        max: usize,
    ) -> impl Future<Output = Result<Vec<Delivery>, LedgerError>> + Send {
        receive::take(self, local, candidates, max)
    }

    /// Settles deliveries, as the contract says.
    fn settle(
        &self,
        verdicts: Vec<(Receipt, Verdict)>,
    ) -> impl Future<Output = Vec<Result<SettleOutcome, SettleError>>> + Send {
        settle::settle(self, verdicts)
    }

    /// Replays dead letters, as the contract says.
    fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> impl Future<Output = Result<ReplayOutcome, BrokerError>> + Send {
        dead_letters::replay(self, queue, filter)
    }

    /// Starts the tasks that run until the broker is closed.
    fn start(self: &Arc<Self>) {
        self.runtime.spawn(watch::watch(self.clone()));
        self.runtime.spawn(watch::remove_done(self.clone()));
    }
}
