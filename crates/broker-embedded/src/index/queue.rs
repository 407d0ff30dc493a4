//! One queue in memory: what is ready, what waits for its time, what is dead.

use super::{
    groups::Groups,
    lately::Lately,
    slab::{Life, List, NONE, Slab, Slot},
};
use crawlway_broker::{Depth, QueueSpec, Rates, Timestamp};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// One queue in memory.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) spec: QueueSpec,
    pub(crate) paused: bool,
    /// Woken when something may have become receivable.
    pub(crate) arrivals: Arc<Notify>,
    /// Delivered and not settled.
    pub(crate) in_flight: u32,
    /// Publishes that are being written; they count towards the limit.
    pub(crate) reserved: u64,
    /// Dead letters by their number.
    pub(crate) dead: BTreeMap<u64, Slot>,
    /// What was published.
    pub(crate) published: Lately,
    /// Deliveries that were settled.
    pub(crate) settled: Lately,
    ready: List,
    later: BinaryHeap<Reverse<(Timestamp, Slot)>>,
    /// When each of those falls due.
    dues: HashMap<Slot, Timestamp>,
    groups: Groups,
    waiting: u64,
    /// How many waiting messages were published in which second.
    births: BTreeMap<u32, u32>,
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
            published: Lately::default(),
            settled: Lately::default(),
            ready: List::default(),
            later: BinaryHeap::new(),
            dues: HashMap::new(),
            groups: Groups::default(),
            waiting: 0,
            births: BTreeMap::new(),
        }
    }

    /// How many messages wait, ready or not.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Notes the group of a new message, if this queue has groups. It must be pushed then.
    pub(crate) fn enlist(&mut self, slab: &mut Slab, slot: Slot, group: Option<&str>) {
        if let Some(group) = group.filter(|_| self.spec.groups) {
            self.groups.enlist(slab, slot, group);
        }
    }

    /// Puts a new message at the end of the line, or of its group.
    pub(crate) fn push(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        self.note_waiting(slab, slot);
        if slab.get(slot).group != NONE {
            self.groups.push_back(slab, slot, due, now);
        } else if due > now {
            self.wait(slot, due);
        } else {
            self.ready.push_back(slab, slot);
        }
        self.wake();
    }

    /// Puts a message that was out back in line: first in its group, or first of all, once it is due.
    pub(crate) fn put_back(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        self.note_waiting(slab, slot);
        if slab.get(slot).group != NONE {
            self.groups.push_front(slab, slot, due, now);
        } else if due > now {
            self.wait(slot, due);
        } else {
            self.ready.push_front(slab, slot);
        }
        self.wake();
    }

    /// Takes the next message that is ready.
    pub(crate) fn pop(&mut self, slab: &mut Slab) -> Option<Slot> {
        let slot = self.groups.pop(slab).or_else(|| self.ready.pop_front(slab))?;
        self.note_taken(slab, slot);
        Some(slot)
    }

    /// Lets the next message of a group go, now that this one is out no more.
    pub(crate) fn release(&mut self, slab: &Slab, slot: Slot, now: Timestamp) {
        let group = slab.get(slot).group;
        if group != NONE {
            self.groups.release(group, now);
        }
        self.wake();
    }

    /// Moves what has fallen due to the ready ones.
    pub(crate) fn promote(&mut self, slab: &mut Slab, now: Timestamp) {
        self.groups.promote(now);
        while let Some(Reverse((due, slot))) = self.later.peek().copied()
            && due <= now
        {
            self.later.pop();
            self.dues.remove(&slot);
            self.ready.push_back(slab, slot);
        }
    }

    /// When the next message falls due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let ungrouped = self.later.peek().map(|Reverse((due, _))| *due);
        ungrouped.into_iter().chain(self.groups.next_due()).min()
    }

    /// Every message that waits.
    pub(crate) fn waiting_slots(&self, slab: &Slab) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.ready.iter(slab).collect();
        slots.extend(self.later.iter().map(|Reverse((_, slot))| *slot));
        slots.extend(self.groups.waiting_slots(slab));
        slots
    }

    /// Forgets everything that waits.
    pub(crate) fn clear(&mut self) {
        self.ready = List::default();
        self.later.clear();
        self.dues.clear();
        self.groups.clear();
        self.waiting = 0;
        self.births.clear();
    }

    /// When this waiting message falls due, if it is ahead of its time.
    pub(crate) fn due_of(&self, slot: Slot) -> Option<Timestamp> {
        self.dues.get(&slot).copied().or_else(|| self.groups.due_of(slot))
    }

    pub(crate) fn depth(&mut self, now: Timestamp) -> Depth {
        let rates = Rates { published: self.published.rate(now), settled: self.settled.rate(now) };
        let delayed = self.groups.delayed(now) + self.later.len() as u64;
        let oldest = self.births.keys().next().map(|born| Timestamp::from_millis(u64::from(*born) * 1000));
        Depth {
            ready: self.waiting - delayed,
            in_flight: u64::from(self.in_flight),
            delayed,
            dead: self.dead.len() as u64,
            oldest_age: oldest.map(|oldest| Duration::from_secs(now.since(oldest).as_secs())),
            rates: Some(rates),
            exact: true,
            paused: self.paused,
        }
    }

    /// Wakes whoever waits for a message.
    pub(crate) fn wake(&self) {
        self.arrivals.notify_waiters();
    }

    /// Whether something could be taken right now.
    pub(crate) fn has_ready(&self) -> bool {
        self.groups.has_ready() || !self.ready.is_empty()
    }

    fn wait(&mut self, slot: Slot, due: Timestamp) {
        self.later.push(Reverse((due, slot)));
        self.dues.insert(slot, due);
    }

    fn note_waiting(&mut self, slab: &mut Slab, slot: Slot) {
        let entry = slab.get_mut(slot);
        entry.life = Life::Waiting;
        self.waiting += 1;
        *self.births.entry(entry.born).or_default() += 1;
    }

    fn note_taken(&mut self, slab: &Slab, slot: Slot) {
        self.waiting -= 1;
        let born = slab.get(slot).born;
        if let Some(count) = self.births.get_mut(&born) {
            *count -= 1;
            if *count == 0 {
                self.births.remove(&born);
            }
        }
    }
}
