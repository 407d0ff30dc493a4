//! Entries in one growing slab, strung into lists by their own `next` field.

use crate::record::Place;

/// Names an entry for as long as it is in use.
pub(crate) type Slot = u32;
/// No entry, no group.
pub(crate) const NONE: u32 = u32::MAX;
/// Entries are allocated this many at a time, so that growing never copies what is there.
const CHUNK: usize = 1 << 14;

/// Where a message is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Free,
    /// Ready, or waiting for its time.
    Waiting,
    InFlight,
    /// Being written elsewhere with what happened to it; nobody may touch it meanwhile.
    Leaving,
    Dead,
}

/// What is known of a message without reading it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// Length of the record's payload.
    pub(crate) payload: u32,
    next: Slot,
    /// The group in its queue's table, if the queue has groups.
    pub(crate) group: u32,
    /// When it was published, in seconds since the Unix epoch.
    pub(crate) born: u32,
    /// The number of its queue.
    pub(crate) queue: u16,
    /// Attempts that failed.
    pub(crate) attempts: u16,
    /// Changes with each delivery, so that a copy made before one is recognised as stale.
    pub(crate) stamp: u8,
    pub(crate) life: Life,
}

/// All entries of all queues.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Vec<Entry>>,
    free: List,
}

impl Slab {
    pub(crate) fn insert(&mut self, queue: u16, place: Place, payload: u32, born: u32) -> Slot {
        let entry = Entry {
            place,
            payload,
            next: NONE,
            group: NONE,
            born,
            queue,
            attempts: 0,
            stamp: 0,
            life: Life::Waiting,
        };
        let mut free = std::mem::take(&mut self.free);
        let reused = free.pop_front(self);
        self.free = free;
        if let Some(slot) = reused {
            *self.get_mut(slot) = entry;
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        let chunk = &mut self.chunks[last];
        chunk.push(entry);
        (last * CHUNK + chunk.len() - 1) as Slot
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.get_mut(slot).life = Life::Free;
        let mut free = std::mem::take(&mut self.free);
        free.push_front(self, slot);
        self.free = free;
    }

    pub(crate) fn get(&self, slot: Slot) -> &Entry {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

/// A list of entries; each entry is in at most one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: Slot,
    tail: Slot,
    length: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, length: 0 }
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn front(&self) -> Option<Slot> {
        (self.length > 0).then_some(self.head)
    }

    pub(crate) fn iter(self, slab: &Slab) -> impl Iterator<Item = Slot> {
        let mut next = self.head;
        (0..self.length).map(move |_| {
            let slot = next;
            next = slab.get(slot).next;
            slot
        })
    }

    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: Slot) {
        slab.get_mut(slot).next = NONE;
        if self.length == 0 {
            self.head = slot;
        } else {
            slab.get_mut(self.tail).next = slot;
        }
        self.tail = slot;
        self.length += 1;
    }

    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: Slot) {
        slab.get_mut(slot).next = self.head;
        if self.length == 0 {
            self.tail = slot;
            slab.get_mut(slot).next = NONE;
        }
        self.head = slot;
        self.length += 1;
    }

    pub(crate) fn pop_front(&mut self, slab: &mut Slab) -> Option<Slot> {
        let slot = self.front()?;
        self.head = slab.get(slot).next;
        self.length -= 1;
        if self.length == 0 {
            *self = List::default();
        }
        Some(slot)
    }
}
