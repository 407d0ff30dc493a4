//! Local state of a declared queue: received messages, and the deliveries in flight.
//!
//! ```text
//!  poll ─▶ ready ─▶ being taken ─▶ in flight ─▶ settled
//!            │  ▲        │             └─ lease ended: visible again, suspect
//!            │  └────────┘ call cancelled
//!            └─ no receiver for a while: handed back, visible again
//! ```

use crate::{names::Names, wire::Received};
use crawlway_broker::{Ordering, QueueName, QueueSpec, Timestamp, history::History, suspects::Slots};
use crawlway_broker_ledger::MessageKey;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

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

impl Entry {
    pub(crate) fn key(&self, queue: &QueueName) -> MessageKey {
        // Names of queues and ids of messages are within the limits.
        MessageKey::new(queue.as_str(), &self.received.message_id)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }
}

/// A delivery in flight.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    pub(crate) entry: Entry,
    /// History of the message and the ledger together.
    pub(crate) history: History,
    pub(crate) until: Timestamp,
    /// A verdict is being carried out: its lease does not end meanwhile.
    pub(crate) settling: bool,
}

/// Local state of a queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) spec: QueueSpec,
    pub(crate) ready: VecDeque<Entry>,
    pub(crate) in_flight: HashMap<u64, InFlight>,
    /// Number of messages that are being taken.
    taking: usize,
    /// Number of messages that waiting receivers ask for.
    pub(crate) demand: usize,
    /// Number of polls under way.
    pub(crate) polling: usize,
    pub(crate) is_paused: bool,
    /// Messages sent before this time are purged, except those in `kept`.
    pub(crate) purged_before: Timestamp,
    /// Number of purged messages that are hidden and not deleted yet, as far as it is known.
    pub(crate) purged_hidden: u64,
    /// Messages that were in flight when the queue was purged.
    pub(crate) kept: HashSet<String>,
    next_number: u64,
}

/// A declared queue as this process uses it.
#[derive(Debug)]
pub(crate) struct LocalQueue {
    pub(crate) queue: QueueName,
    pub(crate) names: Names,
    pub(crate) url: String,
    /// URL of the dead queue, once it is known.
    pub(crate) dead_url: tokio::sync::OnceCell<String>,
    state: Mutex<QueueState>,
    /// Wakes receivers.
    pub(crate) changed: Notify,
    /// Wakes the keeper.
    pub(crate) keeper: Notify,
}

impl LocalQueue {
    pub(crate) fn new(spec: QueueSpec, names: Names, url: String) -> Self {
        Self {
            queue: spec.name.clone(),
            names,
            url,
            dead_url: tokio::sync::OnceCell::new(),
            state: Mutex::new(QueueState {
                spec,
                ready: VecDeque::new(),
                in_flight: HashMap::new(),
                taking: 0,
                demand: 0,
                polling: 0,
                is_paused: false,
                purged_before: Timestamp::from_millis(0),
                purged_hidden: 0,
                kept: HashSet::new(),
                next_number: 1,
            }),
            changed: Notify::new(),
            keeper: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    pub(crate) fn spec(&self) -> QueueSpec {
        self.state().spec.clone()
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
        self.keeper.notify_one();
    }
}

impl QueueState {
    /// A number that no other delivery of this process has.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn allowed(&self) -> usize {
        (self.spec.prefetch as usize).saturating_sub(self.in_flight.len() + self.taking)
    }

    /// Messages that one poll asks for: several of a group at once could be in flight together.
    pub(crate) fn batch(&self) -> usize {
        let max = if self.spec.ordering == Ordering::None { crate::connection::BATCH } else { 1 };
        max.min(self.demand.min(self.allowed()).saturating_sub(self.ready.len()).max(1))
    }

    /// Number of polls that should be under way.
    pub(crate) fn wanted_polls(&self, max: usize) -> usize {
        if self.is_paused {
            return 0;
        }
        let wanted = self.demand.min(self.allowed()).saturating_sub(self.ready.len());
        let per_poll = if self.spec.ordering == Ordering::None { crate::connection::BATCH } else { 1 };
        wanted.div_ceil(per_poll).min(max)
    }

    /// Takes up to `max` ready messages, as the prefetch allows. What is not hidden any more is dropped.
    pub(crate) fn candidates(&mut self, max: usize, now: Timestamp) -> Vec<Entry> {
        if self.is_paused {
            return Vec::new();
        }
        let (allowed, mut slots, mut taken) = (self.allowed(), Slots::new(max), Vec::new());
        while taken.len() < max.min(allowed)
            && let Some(entry) = self.ready.pop_front()
        {
            if entry.hidden_until <= now + MARGIN {
                continue;
            }
            if !slots.take(entry.losses) {
                self.ready.push_front(entry);
                break;
            }
            taken.push(entry);
        }
        self.taking += taken.len();
        taken
    }

    /// Ends the take of this many messages.
    pub(crate) fn end_take(&mut self, count: usize) {
        self.taking = self.taking.saturating_sub(count);
    }

    /// Time at which the next lease ends.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.in_flight.values().filter(|held| !held.settling).map(|held| held.until).min()
    }
}

/// Time before the end of a message's visibility timeout at which it counts as lost: a request may take that long.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);
