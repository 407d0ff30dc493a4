//! Message groups of a queue: ordered lists of which only the head may be delivered.

use super::slab::{List, NONE, Slab, Slot};
use crawlway_broker::Timestamp;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupState {
    /// The head can be delivered.
    Ready,
    /// A message of the group is in flight.
    InFlight,
    /// The head is due at this time.
    Delayed(Timestamp),
    /// No message is pending or in flight.
    Idle,
    /// Unused entry.
    Free,
}

#[derive(Debug)]
struct Group {
    name: Arc<str>,
    pending: List,
    state: GroupState,
}

/// Groups with a pending or in-flight message. Empty groups are removed.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    numbers: HashMap<Arc<str>, u32>,
    groups: Vec<Group>,
    free_numbers: Vec<u32>,
    ready: VecDeque<u32>,
    delayed: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// Due times of delayed messages.
    due_times: HashMap<Slot, Timestamp>,
}

impl Groups {
    /// Assigns a new message to its group. It is not pending yet.
    pub(crate) fn assign_group(&mut self, slab: &mut Slab, slot: Slot, name: &str) {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name),
        };
        slab.get_mut(slot).group = number;
    }

    /// Appends a new message to its group.
    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        let number = slab.get(slot).group;
        if due > now {
            self.due_times.insert(slot, due);
        }
        let group = &mut self.groups[number as usize];
        group.pending.push_back(slab, slot);
        if group.state == GroupState::Idle {
            self.reschedule(number, now);
        }
    }

    /// Returns a message to the head of its group, which can be delivered again.
    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        let number = slab.get(slot).group;
        if due > now {
            self.due_times.insert(slot, due);
        }
        self.groups[number as usize].pending.push_front(slab, slot);
        self.reschedule(number, now);
    }

    /// Takes the head of the next ready group.
    pub(crate) fn pop(&mut self, slab: &mut Slab) -> Option<Slot> {
        let number = self.ready.pop_front()?;
        let group = &mut self.groups[number as usize];
        group.state = GroupState::InFlight;
        group.pending.pop_front(slab)
    }

    /// Ends the delivery of a group's message.
    pub(crate) fn release(&mut self, number: u32, now: Timestamp) {
        self.reschedule(number, now);
    }

    /// Makes groups ready whose head is due.
    pub(crate) fn promote(&mut self, now: Timestamp) {
        while let Some(Reverse((due, number))) = self.delayed.peek().copied()
            && due <= now
        {
            self.delayed.pop();
            // The group may have been removed and its number reused.
            if self.groups[number as usize].state == GroupState::Delayed(due) {
                self.reschedule(number, now);
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.delayed.peek().map(|Reverse((due, _))| *due)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Number of delayed messages.
    pub(crate) fn delayed(&self, now: Timestamp) -> u64 {
        self.due_times.values().filter(|due| **due > now).count() as u64
    }

    /// Due time of a delayed message.
    pub(crate) fn due_of(&self, slot: Slot) -> Option<Timestamp> {
        self.due_times.get(&slot).copied()
    }

    /// All pending messages.
    pub(crate) fn pending_slots(&self, slab: &Slab) -> impl Iterator<Item = Slot> {
        self.groups.iter().flat_map(|group| group.pending.iter(slab))
    }

    /// Removes all pending messages; those in flight stay.
    pub(crate) fn clear(&mut self) {
        self.due_times.clear();
        self.ready.clear();
        self.delayed.clear();
        for number in 0..self.groups.len() as u32 {
            let group = &mut self.groups[number as usize];
            group.pending = List::default();
            if !matches!(group.state, GroupState::InFlight | GroupState::Free) {
                self.remove(number);
            }
        }
    }

    fn add(&mut self, name: &str) -> u32 {
        let name: Arc<str> = name.into();
        let group = Group { name: name.clone(), pending: List::default(), state: GroupState::Idle };
        let number = match self.free_numbers.pop() {
            Some(number) => {
                self.groups[number as usize] = group;
                number
            }
            None => {
                self.groups.push(group);
                (self.groups.len() - 1) as u32
            }
        };
        self.numbers.insert(name, number);
        number
    }

    fn remove(&mut self, number: u32) {
        let group = &mut self.groups[number as usize];
        self.numbers.remove(&group.name);
        *group = Group { name: "".into(), pending: List::default(), state: GroupState::Free };
        self.free_numbers.push(number);
    }

    /// Makes a group ready, delays it until its head is due, or removes it if it is empty.
    fn reschedule(&mut self, number: u32, now: Timestamp) {
        debug_assert_ne!(number, NONE);
        let Some(first) = self.groups[number as usize].pending.front() else {
            self.remove(number);
            return;
        };
        let group = &mut self.groups[number as usize];
        match self.due_times.get(&first) {
            Some(due) if *due > now => {
                group.state = GroupState::Delayed(*due);
                self.delayed.push(Reverse((*due, number)));
            }
            _ => {
                self.due_times.remove(&first);
                group.state = GroupState::Ready;
                self.ready.push_back(number);
            }
        }
    }
}
