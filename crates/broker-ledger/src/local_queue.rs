//! Local state of a declared queue: messages that are ready, and the deliveries in flight.

use crate::{Backend, Entry, State};
use crawlway_broker::{QueueName, QueueSpec, Timestamp, history::History, suspects::Slots};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, VecDeque},
    ops::Deref,
};
use tokio::sync::Notify;

/// A declared queue as this process uses it. Dereferences to the backend's part.
#[derive(Debug)]
pub struct LocalQueue<B: Backend> {
    /// Name of the queue.
    pub queue: QueueName,
    server: B::Queue,
    state: Mutex<B::State>,
    /// Wakes receivers.
    pub changed: Notify,
    /// Wakes the keeper.
    pub keeper: Notify,
}

impl<B: Backend> LocalQueue<B> {
    /// Queue with the spec of its state.
    pub fn new(server: B::Queue, mut state: B::State) -> Self {
        Self {
            queue: state.deliveries().spec.name.clone(),
            server,
            state: Mutex::new(state),
            changed: Notify::new(),
            keeper: Notify::new(),
        }
    }

    /// State of the queue, locked.
    pub fn state(&self) -> MutexGuard<'_, B::State> {
        self.state.lock()
    }

    /// Settings that the queue was declared with.
    pub fn spec(&self) -> QueueSpec {
        self.state().deliveries().spec.clone()
    }

    /// Wakes receivers and the keeper.
    pub fn wake(&self) {
        self.changed.notify_waiters();
        self.keeper.notify_one();
    }
}

impl<B: Backend> Deref for LocalQueue<B> {
    type Target = B::Queue;

    fn deref(&self) -> &B::Queue {
        &self.server
    }
}

/// A delivery in flight.
#[derive(Debug, Clone)]
pub struct InFlight<E> {
    /// The message.
    pub entry: E,
    /// History of the message and the ledger together.
    pub history: History,
    /// End of its lease.
    pub until: Timestamp,
    /// A verdict is being carried out: its lease does not end meanwhile.
    pub settling: bool,
}

/// Messages of a queue that are ready, and deliveries in flight.
#[derive(Debug)]
pub struct Deliveries<E> {
    /// Settings of the queue.
    pub spec: QueueSpec,
    /// Nothing is delivered.
    pub is_paused: bool,
    /// Messages that can be taken.
    pub ready: VecDeque<E>,
    /// Deliveries by their tags.
    pub in_flight: HashMap<u64, InFlight<E>>,
    /// Number of messages that are being taken.
    pub(crate) taking: usize,
    next_number: u64,
}

impl<E: Entry> Deliveries<E> {
    /// No messages of a queue.
    pub fn new(spec: QueueSpec) -> Self {
        Self {
            spec,
            is_paused: false,
            ready: VecDeque::new(),
            in_flight: HashMap::new(),
            taking: 0,
            next_number: 1,
        }
    }

    /// A number that no other delivery of this process has.
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Number of messages that the prefetch allows to take.
    pub fn allowed(&self) -> usize {
        (self.spec.prefetch as usize).saturating_sub(self.in_flight.len() + self.taking)
    }

    /// Removes up to `max` ready messages, as the prefetch allows, for [`Backend::take`]. Invalid ones are dropped.
    pub fn candidates(&mut self, max: usize, is_valid: impl Fn(&E) -> bool) -> Vec<E> {
        if self.is_paused {
            return Vec::new();
        }
        let (allowed, mut slots, mut taken) = (self.allowed(), Slots::new(max), Vec::new());
        while taken.len() < max.min(allowed)
            && let Some(mut entry) = self.ready.pop_front()
        {
            if !is_valid(&entry) {
                continue;
            }
            if !slots.take(*entry.losses()) {
                self.ready.push_front(entry);
                break;
            }
            taken.push(entry);
        }
        self.taking += taken.len();
        taken
    }

    /// Removes the deliveries whose leases have ended.
    pub fn expired(&mut self, now: Timestamp) -> Vec<E> {
        let has_ended = |held: &InFlight<E>| !held.settling && held.until <= now;
        self.in_flight.extract_if(|_, held| has_ended(held)).map(|(_, held)| held.entry).collect()
    }

    /// Time at which the next lease ends.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.in_flight.values().filter(|held| !held.settling).map(|held| held.until).min()
    }
}
