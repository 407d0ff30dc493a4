//! The groups of a queue: each an ordered list of which only the first may be taken.

use super::slab::{List, NONE, Slab, Slot};
use crawlway_broker::Timestamp;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// In line; its first message may be taken.
    Ready,
    /// One of its messages is out, and nothing else may be taken meanwhile.
    Taken,
    /// Its first message waits for this time.
    Until(Timestamp),
    /// Has neither a message waiting nor one out.
    Resting,
    /// Not in use.
    Vacant,
}

#[derive(Debug)]
struct Group {
    name: Arc<str>,
    waiting: List,
    turn: Turn,
}

/// All groups that have a message waiting or in flight. A group without any is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    numbers: HashMap<Arc<str>, u32>,
    groups: Vec<Group>,
    vacant: Vec<u32>,
    ready: VecDeque<u32>,
    later: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// Messages that are ahead of their time.
    dues: HashMap<Slot, Timestamp>,
}

impl Groups {
    /// Notes the group of a new message, which is not in line yet.
    pub(crate) fn enlist(&mut self, slab: &mut Slab, slot: Slot, name: &str) {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name),
        };
        slab.get_mut(slot).group = number;
    }

    /// Puts a new message at the end of its group.
    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        let number = slab.get(slot).group;
        if due > now {
            self.dues.insert(slot, due);
        }
        let group = &mut self.groups[number as usize];
        group.waiting.push_back(slab, slot);
        if group.turn == Turn::Resting {
            self.take_turn(number, now);
        }
    }

    /// Puts a message that was out back at the front of its group, and the group in line again.
    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: Slot, due: Timestamp, now: Timestamp) {
        let number = slab.get(slot).group;
        if due > now {
            self.dues.insert(slot, due);
        }
        self.groups[number as usize].waiting.push_front(slab, slot);
        self.take_turn(number, now);
    }

    /// Takes the first message of the group whose turn it is.
    pub(crate) fn pop(&mut self, slab: &mut Slab) -> Option<Slot> {
        let number = self.ready.pop_front()?;
        let group = &mut self.groups[number as usize];
        group.turn = Turn::Taken;
        group.waiting.pop_front(slab)
    }

    /// Ends the turn of a group whose message is out no more.
    pub(crate) fn release(&mut self, number: u32, now: Timestamp) {
        self.take_turn(number, now);
    }

    /// Puts the groups in line whose time has come.
    pub(crate) fn promote(&mut self, now: Timestamp) {
        while let Some(Reverse((due, number))) = self.later.peek().copied()
            && due <= now
        {
            self.later.pop();
            // A group may have been emptied, and its number given away, while it waited.
            if self.groups[number as usize].turn == Turn::Until(due) {
                self.take_turn(number, now);
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.later.peek().map(|Reverse((due, _))| *due)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many messages are ahead of their time.
    pub(crate) fn delayed(&self, now: Timestamp) -> u64 {
        self.dues.values().filter(|due| **due > now).count() as u64
    }

    /// When this waiting message falls due, if it is ahead of its time.
    pub(crate) fn due_of(&self, slot: Slot) -> Option<Timestamp> {
        self.dues.get(&slot).copied()
    }

    /// Every message that waits.
    pub(crate) fn waiting_slots(&self, slab: &Slab) -> impl Iterator<Item = Slot> {
        self.groups.iter().flat_map(|group| group.waiting.iter(slab))
    }

    /// Forgets everything that waits; what is out stays out.
    pub(crate) fn clear(&mut self) {
        self.dues.clear();
        self.ready.clear();
        self.later.clear();
        for number in 0..self.groups.len() as u32 {
            let group = &mut self.groups[number as usize];
            group.waiting = List::default();
            if !matches!(group.turn, Turn::Taken | Turn::Vacant) {
                self.forget(number);
            }
        }
    }

    fn add(&mut self, name: &str) -> u32 {
        let name: Arc<str> = name.into();
        let group = Group { name: name.clone(), waiting: List::default(), turn: Turn::Resting };
        let number = match self.vacant.pop() {
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

    fn forget(&mut self, number: u32) {
        let group = &mut self.groups[number as usize];
        self.numbers.remove(&group.name);
        *group = Group { name: "".into(), waiting: List::default(), turn: Turn::Vacant };
        self.vacant.push(number);
    }

    /// Puts a group in line, or to sleep until its first message is due, or forgets it when it is empty.
    fn take_turn(&mut self, number: u32, now: Timestamp) {
        debug_assert_ne!(number, NONE);
        let Some(first) = self.groups[number as usize].waiting.front() else {
            self.forget(number);
            return;
        };
        let group = &mut self.groups[number as usize];
        match self.dues.get(&first) {
            Some(due) if *due > now => {
                group.turn = Turn::Until(*due);
                self.later.push(Reverse((*due, number)));
            }
            _ => {
                self.dues.remove(&first);
                group.turn = Turn::Ready;
                self.ready.push_back(number);
            }
        }
    }
}
