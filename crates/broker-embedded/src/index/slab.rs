//! Slab of index entries, with intrusive linked lists.

use crate::record::Position;

/// Index of an entry in the slab.
pub(crate) type Slot = u32;
/// No entry, or no group.
pub(crate) const NONE: u32 = u32::MAX;
/// Entries per allocation. Chunks avoid copying when the slab grows.
const CHUNK: usize = 1 << 14;

/// State of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageState {
    Free,
    /// Ready or delayed.
    Pending,
    InFlight,
    /// Being rewritten with its history; not available until that is committed.
    Rewriting,
    Dead,
}

/// Index entry of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) position: Position,
    /// Payload length of its record.
    pub(crate) payload: u32,
    next: Slot,
    /// Number of its group within the queue, if the queue is ordered.
    pub(crate) group: u32,
    /// Time of publishing, in seconds since the Unix epoch.
    pub(crate) published_second: u32,
    /// Queue number.
    pub(crate) queue: u16,
    /// Failed attempts.
    pub(crate) attempts: u16,
    /// Changes with each delivery, so that a relocation prepared before one is recognised as stale.
    pub(crate) generation: u8,
    pub(crate) state: MessageState,
}

/// Entries of all queues.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    chunks: Vec<Vec<Entry>>,
    free: List,
}

impl Slab {
    pub(crate) fn insert(
        &mut self,
        queue: u16,
        position: Position,
        payload: u32,
        published_second: u32,
    ) -> Slot {
        let entry = Entry {
            position,
            payload,
            next: NONE,
            group: NONE,
            published_second,
            queue,
            attempts: 0,
            generation: 0,
            state: MessageState::Pending,
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
        self.get_mut(slot).state = MessageState::Free;
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

/// Linked list of entries. An entry is in at most one list.
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
