//! Local state of a declared queue: received messages, and the deliveries in flight.
//!
//! ```text
//!  poll ─▶ ready ─▶ being taken ─▶ in flight ─▶ settled
//!            │  ▲        │             └─ lease ended: visible again, suspect
//!            │  └────────┘ call cancelled
//!            └─ no receiver for a while: handed back, visible again
//! ```

use crate::{connection::BATCH, engine::Engine, names::Names, wire::Received};
use crawlway_broker::{Message, Ordering, QueueName, QueueSpec, Timestamp, history::History};
use crawlway_broker_ledger::{self as broker_ledger, Deliveries, MessageKey, State};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::sync::OnceCell;

/// Time before the end of a message's visibility timeout at which it counts as lost: a request may take that long.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);

/// A declared queue as this process uses it.
pub(crate) type LocalQueue = broker_ledger::LocalQueue<Engine>;

/// Where a queue is in SQS.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) names: Names,
    pub(crate) url: String,
    /// URL of the dead queue, once it is known.
    pub(crate) dead_url: OnceCell<String>,
}

impl Address {
    pub(crate) fn new(names: Names, url: String) -> Self {
        Self { names, url, dead_url: OnceCell::new() }
    }
}

/// A received message.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) received: Arc<Received>,
    /// Time of the request that received it.
    pub(crate) received_at: Timestamp,
    /// Time until which it is hidden from other consumers, at least.
    pub(crate) hidden_until: Timestamp,
    /// Lost workers, as far as they are known before it is taken.
    pub(crate) losses: u32,
    /// It may be noted in the ledger.
    pub(crate) is_taken: bool,
}

impl broker_ledger::Entry for Entry {
    fn key(&self, queue: &QueueName) -> MessageKey {
        // Names of queues and ids of messages are within the limits.
        MessageKey::new(queue.as_str(), &self.received.message_id)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn message(&self) -> &Message {
        &self.received.message
    }

    fn history(&self) -> &History {
        &self.received.history
    }

    fn losses(&mut self) -> &mut u32 {
        &mut self.losses
    }

    fn is_held(&self, now: Timestamp) -> bool {
        self.hidden_until > now + MARGIN
    }
}

/// Local state of a queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) deliveries: Deliveries<Entry>,
    /// Number of messages that waiting receivers ask for.
    pub(crate) demand: usize,
    /// Number of polls under way.
    pub(crate) polling: usize,
    /// Messages sent before this time are purged, except those in `kept`.
    pub(crate) purged_before: Timestamp,
    /// Number of purged messages that are hidden and not deleted yet, as far as it is known.
    pub(crate) purged_hidden: u64,
    /// Messages that were in flight when the queue was purged.
    pub(crate) kept: HashSet<String>,
}

impl State for QueueState {
    type Entry = Entry;

    fn deliveries(&mut self) -> &mut Deliveries<Entry> {
        &mut self.deliveries
    }
}

impl QueueState {
    pub(crate) fn new(spec: QueueSpec) -> Self {
        Self {
            deliveries: Deliveries::new(spec),
            demand: 0,
            polling: 0,
            purged_before: Timestamp::from_millis(0),
            purged_hidden: 0,
            kept: HashSet::new(),
        }
    }

    /// Messages that receivers wait for.
    fn wanted(&self) -> usize {
        self.demand.min(self.deliveries.allowed()).saturating_sub(self.deliveries.ready.len())
    }

    /// Messages that one poll may ask for: several of a group at once could be in flight together.
    fn max_batch(&self) -> usize {
        if self.deliveries.spec.ordering == Ordering::None { BATCH } else { 1 }
    }

    /// Messages that one poll asks for.
    pub(crate) fn batch(&self) -> usize {
        self.max_batch().min(self.wanted().max(1))
    }

    /// Number of polls that should be under way.
    pub(crate) fn wanted_polls(&self, max: usize) -> usize {
        if self.deliveries.is_paused { 0 } else { self.wanted().div_ceil(self.max_batch()).min(max) }
    }

    /// Removes up to `max` ready messages to be noted in the ledger. What is not hidden any more is dropped.
    pub(crate) fn candidates(&mut self, max: usize, now: Timestamp) -> Vec<Entry> {
        let mut entries = self.deliveries.candidates(max, |entry| broker_ledger::Entry::is_held(entry, now));
        for entry in &mut entries {
            entry.is_taken = true;
        }
        entries
    }
}
