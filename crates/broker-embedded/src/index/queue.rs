//! In-memory state of a queue: ready, delayed and dead messages.

use super::{
    groups::Groups,
    rate_window::RateWindow,
    slab::{List, MessageState, NONE, Slab, Slot},
};
use crawlway_broker::{Depth, Ordering, QueueSpec, Rates, Timestamp};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// In-memory state of a queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: QueueSpec,
    pub(crate) paused: bool,
    /// Notified when a message may have become ready.
    pub(crate) arrivals: Arc<Notify>,
    /// Number of unsettled deliveries.
    pub(crate) in_flight: u32,
    /// Number of publishes being committed; they count towards the maximum length.
    pub(crate) reserved: u64,
    /// Dead letters by number.
    pub(crate) dead: BTreeMap<u64, Slot>,
    /// Rate of publishes.
    pub(crate) published: RateWindow,
    /// Rate of settles.
    pub(crate) settled: RateWindow,
    ready: List,
    delayed: BinaryHeap<Reverse<(Timestamp, Slot)>>,
    /// Due times of delayed messages.
    due_times: HashMap<Slot, Timestamp>,
    groups: Groups,
    pending: u64,
    /// Pending messages per second of publishing, for the age of the oldest.
    publish_seconds: BTreeMap<u32, u32>,
}

impl Queue {
    pub(crate) fn new(spec: QueueSpec, paused: bool) -> Self {
        Self {
            spec,
            paused,
            arrivals: Arc::new(Notify::new()),
            in_flight: 0,
            reserved: 0,
            dead: BTreeMap::new(),
            published: RateWindow::default(),
            settled: RateWindow::default(),
            ready: List::default(),
            delayed: BinaryHeap::new(),
            due_times: HashMap::new(),
            groups: Groups::default(),
            pending: 0,
            publish_seconds: BTreeMap::new(),
        }
    }

    /// Number of pending messages, ready or delayed.
    pub(crate) fn pending(&self) -> u64 {
        self.pending
    }

    /// Assigns a new message to its group, if the queue is ordered. It must be pushed next.
    pub(crate) fn assign_group(&mut self, slab: &mut Slab, slot: Slot, group: Option<&str>) {
        let group = match self.spec.ordering {
            Ordering::None => None,
            Ordering::PerGroup => group,
            // One group for all messages.
            Ordering::Fifo => Some(""),
        };
        if let Some(group) = group {
            self.groups.assign_group(slab, slot, group);
        }
    }

    /// Appends a new message to the queue or to its group.
    pub(crate) fn push(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        self.add_pending(slab, slot);
        if slab.get(slot).group != NONE {
            self.groups.push_back(slab, slot, due, now);
        } else if due > now {
            self.delay(slot, due);
        } else {
            self.ready.push_back(slab, slot);
        }
        self.wake();
    }

    /// Returns a message to the head of the queue or of its group, once it is due.
    pub(crate) fn put_back(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        self.add_pending(slab, slot);
        if slab.get(slot).group != NONE {
            self.groups.push_front(slab, slot, due, now);
        } else if due > now {
            self.delay(slot, due);
        } else {
            self.ready.push_front(slab, slot);
        }
        self.wake();
    }

    /// Takes the next ready message.
    pub(crate) fn pop(&mut self, slab: &mut Slab) -> Option<Slot> {
        let slot = self.groups.pop(slab).or_else(|| self.ready.pop_front(slab))?;
        self.remove_pending(slab, slot);
        Some(slot)
    }

    /// Ends the delivery of a message, which makes its group ready again.
    pub(crate) fn release(&mut self, slab: &Slab, slot: Slot, now: Timestamp) {
        let group = slab.get(slot).group;
        if group != NONE {
            self.groups.release(group, now);
        }
        self.wake();
    }

    /// Makes messages ready that are due.
    pub(crate) fn promote(&mut self, slab: &mut Slab, now: Timestamp) {
        self.groups.promote(now);
        while let Some(Reverse((due, slot))) = self.delayed.peek().copied()
            && due <= now
        {
            self.delayed.pop();
            self.due_times.remove(&slot);
            self.ready.push_back(slab, slot);
        }
    }

    /// Earliest due time of a delayed message.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let ungrouped = self.delayed.peek().map(|Reverse((due, _))| *due);
        ungrouped.into_iter().chain(self.groups.next_due()).min()
    }

    /// All pending messages.
    pub(crate) fn pending_slots(&self, slab: &Slab) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.ready.iter(slab).collect();
        slots.extend(self.delayed.iter().map(|Reverse((_, slot))| *slot));
        slots.extend(self.groups.pending_slots(slab));
        slots
    }

    /// Removes all pending messages.
    pub(crate) fn clear(&mut self) {
        self.ready = List::default();
        self.delayed.clear();
        self.due_times.clear();
        self.groups.clear();
        self.pending = 0;
        self.publish_seconds.clear();
    }

    /// Due time of a delayed message.
    pub(crate) fn due_of(&self, slot: Slot) -> Option<Timestamp> {
        self.due_times.get(&slot).copied().or_else(|| self.groups.due_of(slot))
    }

    pub(crate) fn depth(&mut self, now: Timestamp) -> Depth {
        let rates = Rates { published: self.published.rate(now), settled: self.settled.rate(now) };
        let delayed = self.groups.delayed(now) + self.delayed.len() as u64;
        let oldest = self
            .publish_seconds
            .keys()
            .next()
            .map(|published_second| Timestamp::from_millis(u64::from(*published_second) * 1000));
        Depth {
            ready: self.pending - delayed,
            in_flight: u64::from(self.in_flight),
            delayed,
            dead: self.dead.len() as u64,
            oldest_age: oldest.map(|oldest| Duration::from_secs(now.since(oldest).as_secs())),
            rates: Some(rates),
            exact: true,
            paused: self.paused,
        }
    }

    /// Wakes waiting receivers.
    pub(crate) fn wake(&self) {
        self.arrivals.notify_waiters();
    }

    /// Whether a message is ready.
    pub(crate) fn has_ready(&self) -> bool {
        self.groups.has_ready() || !self.ready.is_empty()
    }

    fn delay(&mut self, slot: Slot, due: Timestamp) {
        self.delayed.push(Reverse((due, slot)));
        self.due_times.insert(slot, due);
    }

    fn add_pending(&mut self, slab: &mut Slab, slot: Slot) {
        let entry = slab.get_mut(slot);
        entry.state = MessageState::Pending;
        self.pending += 1;
        *self.publish_seconds.entry(entry.published_second).or_default() += 1;
    }

    fn remove_pending(&mut self, slab: &Slab, slot: Slot) {
        self.pending -= 1;
        let published_second = slab.get(slot).published_second;
        if let Some(count) = self.publish_seconds.get_mut(&published_second) {
            *count -= 1;
            if *count == 0 {
                self.publish_seconds.remove(&published_second);
            }
        }
    }
}
