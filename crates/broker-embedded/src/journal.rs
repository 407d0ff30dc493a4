//! Settle journal: one file per segment with the events of its records since they were written.
//!
//! Append-only slots of 16 bytes, each with its own checksum, so that damage is limited to one slot:
//!
//! ```text
//! 0   1   event code
//! 1   7   argument: a time in milliseconds, or a position (29 bits of segment, 27 bits of offset in units of 8)
//! 8   4   offset of the record in the segment
//! 12  4   checksum, salted like the segment's records
//! ```
//!
//! A call returns after its journal write reached the operating system, so that a killed process loses none. Journals
//! are synced about once a second, so that a power cut may undo the last second.

use crate::{
    disk::DiskFile,
    record::{ALIGN, Position},
};
use crawlway_broker::Timestamp;
use std::{collections::HashMap, io, sync::Arc};

pub(crate) const SLOT: usize = 16;

/// Event of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Delivered to a consumer.
    Delivered,
    /// Settled, purged, dropped or quarantined: not needed any more.
    Done,
    /// Its worker was lost at this time.
    WorkerLost { at: Timestamp },
    /// Its worker runs it solo from now on.
    Solo,
    /// Its worker's process crashed at this time while running it solo.
    SoloCrash { at: Timestamp },
    /// Pending until this time.
    Deferred { until: Timestamp },
    /// Superseded by the copy at this position, and by no other copy.
    Moved { to: Position },
    /// Unreadable bytes from this offset on were quarantined and reported. Not about a record.
    Quarantined { bytes: u64 },
    /// The segment is sealed: its records end at this offset and are all synced. Not about a record.
    Sealed,
}

impl Event {
    fn encode(self, offset: u32, salt: u32) -> [u8; SLOT] {
        let (code, argument) = match self {
            Event::Delivered => (1, 0),
            Event::Done => (2, 0),
            Event::WorkerLost { at } => (3, at.as_millis()),
            Event::Deferred { until } => (4, until.as_millis()),
            Event::Moved { to } => (5, u64::from(to.segment) << 27 | u64::from(to.offset / ALIGN as u32)),
            Event::Sealed => (6, 0),
            Event::Quarantined { bytes } => (7, bytes),
            Event::Solo => (8, 0),
            Event::SoloCrash { at } => (9, at.as_millis()),
        };
        let mut slot = [0; SLOT];
        // 56 bits of milliseconds last for two million years.
        slot[..8].copy_from_slice(&argument.min((1 << 56) - 1).to_le_bytes());
        slot.copy_within(0..7, 1);
        slot[0] = code;
        slot[8..12].copy_from_slice(&offset.to_le_bytes());
        let checksum = checksum(&slot, salt);
        slot[12..].copy_from_slice(&checksum.to_le_bytes());
        slot
    }

    fn decode(slot: &[u8; SLOT], salt: u32) -> Option<(u32, Event)> {
        let u32_at = |at: usize| u32::from_le_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]]);
        if u32_at(12) != checksum(slot, salt) {
            return None;
        }
        let mut argument = [0; 8];
        argument[..7].copy_from_slice(&slot[1..8]);
        let argument = u64::from_le_bytes(argument);
        let time = Timestamp::from_millis(argument);
        let position = || Position {
            segment: (argument >> 27) as u32,
            offset: (argument & ((1 << 27) - 1)) as u32 * ALIGN as u32,
        };
        let event = match slot[0] {
            1 => Event::Delivered,
            2 => Event::Done,
            3 => Event::WorkerLost { at: time },
            4 => Event::Deferred { until: time },
            5 => Event::Moved { to: position() },
            6 => Event::Sealed,
            7 => Event::Quarantined { bytes: argument },
            8 => Event::Solo,
            9 => Event::SoloCrash { at: time },
            _ => return None,
        };
        Some((u32_at(8), event))
    }
}

fn checksum(slot: &[u8; SLOT], salt: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(&slot[..12]);
    hasher.finalize()
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: Arc<dyn DiskFile>,
    end: u64,
    salt: u32,
    unsynced: bool,
}

impl Journal {
    /// Opens a journal for appending at this offset.
    pub(crate) fn open(file: Arc<dyn DiskFile>, salt: u32, end: u64) -> Self {
        Self { file, end, salt, unsynced: false }
    }

    /// Appends events and writes them through to the operating system.
    pub(crate) fn append(&mut self, events: impl IntoIterator<Item = (u32, Event)>) -> io::Result<()> {
        let mut slots = Vec::new();
        for (offset, event) in events {
            slots.extend_from_slice(&event.encode(offset, self.salt));
        }
        self.file.write_at(&slots, self.end)?;
        self.end += slots.len() as u64;
        self.unsynced = true;
        Ok(())
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.end
    }

    /// Marks the journal as unsynced again after a failed sync.
    pub(crate) fn note_unsynced(&mut self) {
        self.unsynced = true;
    }

    /// The file to sync, if it was written to since the last call.
    pub(crate) fn take_unsynced(&mut self) -> Option<Arc<dyn DiskFile>> {
        std::mem::take(&mut self.unsynced).then(|| self.file.clone())
    }
}

/// State of a record according to its journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JournaledState {
    pub(crate) done: bool,
    pub(crate) moved: Option<Position>,
    pub(crate) in_flight: bool,
    /// Whether its worker runs it solo.
    pub(crate) solo: bool,
    /// Lost workers, and those of them that ran it solo.
    pub(crate) lost: u16,
    pub(crate) solo_crashes: u16,
    pub(crate) first_lost: Timestamp,
    pub(crate) last_lost: Timestamp,
    /// Due time that overrides the one in the record.
    pub(crate) deferred: Option<Timestamp>,
    /// Number of unreadable bytes quarantined from this offset on.
    pub(crate) quarantined: Option<u64>,
}

impl JournaledState {
    /// Whether the record is settled or superseded.
    pub(crate) fn is_obsolete(&self) -> bool {
        self.done || self.moved.is_some()
    }

    /// Records a lost worker.
    pub(crate) fn record_loss(&mut self, at: Timestamp) {
        if self.lost == 0 {
            self.first_lost = at;
        }
        self.lost = self.lost.saturating_add(1);
        self.last_lost = at;
        (self.in_flight, self.solo) = (false, false);
    }

    /// Whether the record was ever in use. A copy that was not used never became valid.
    pub(crate) fn was_used(&self) -> bool {
        self.in_flight || self.lost > 0 || self.deferred.is_some() || self.moved.is_some()
    }
}

/// Contents of a journal, by record.
#[derive(Debug, Default)]
pub(crate) struct JournalContents {
    pub(crate) by_offset: HashMap<u32, JournaledState>,
    /// End of the records, if the segment is sealed.
    pub(crate) sealed: Option<u32>,
    pub(crate) damaged_slots: u64,
    /// End of the journal. Zeros after it were never written.
    pub(crate) end: u64,
}

impl JournalContents {
    /// Reads a whole journal. Unreadable slots are counted and skipped.
    pub(crate) fn read(file: &dyn DiskFile, salt: u32) -> io::Result<Self> {
        let mut contents = JournalContents::default();
        let length = file.len()?;
        let mut buffer = vec![0; 64 * 1024];
        let mut at = 0;
        // Zeros at the end are an unwritten tail, not damage.
        let mut zeros = 0;
        while at < length {
            let read = file.read_at(&mut buffer, at)?;
            if read < SLOT {
                break;
            }
            let whole = read / SLOT * SLOT;
            for (n, slot) in buffer[..whole].as_chunks::<SLOT>().0.iter().enumerate() {
                if *slot != [0; SLOT] {
                    contents.end = at + ((n + 1) * SLOT) as u64;
                }
                if let Some((offset, event)) = Event::decode(slot, salt) {
                    contents.note(offset, event);
                    contents.damaged_slots += std::mem::take(&mut zeros);
                } else if *slot == [0; SLOT] {
                    zeros += 1;
                } else {
                    contents.damaged_slots += 1;
                }
            }
            at += whole as u64;
        }
        Ok(contents)
    }

    fn note(&mut self, offset: u32, event: Event) {
        if event == Event::Sealed {
            self.sealed = Some(offset);
            return;
        }
        let journaled = self.by_offset.entry(offset).or_default();
        match event {
            Event::Delivered => (journaled.in_flight, journaled.solo) = (true, false),
            Event::Solo => journaled.solo = true,
            Event::Done => journaled.done = true,
            Event::Moved { to } => journaled.moved = Some(to),
            Event::Quarantined { bytes } => journaled.quarantined = Some(bytes),
            Event::Sealed => {}
            Event::WorkerLost { at } | Event::SoloCrash { at } => {
                let solo = matches!(event, Event::SoloCrash { .. });
                journaled.solo_crashes = journaled.solo_crashes.saturating_add(u16::from(solo));
                journaled.record_loss(at);
            }
            Event::Deferred { until } => {
                journaled.deferred = Some(until);
                (journaled.in_flight, journaled.solo) = (false, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event() -> impl Strategy<Value = Event> {
        let time = (0u64..1 << 56).prop_map(Timestamp::from_millis);
        prop_oneof![
            Just(Event::Delivered),
            Just(Event::Done),
            (0u32..1 << 29, 0u32..1 << 27)
                .prop_map(|(segment, n)| Event::Moved { to: Position { segment, offset: n * 8 } }),
            Just(Event::Sealed),
            (0u64..1 << 56).prop_map(|bytes| Event::Quarantined { bytes }),
            Just(Event::Solo),
            time.clone().prop_map(|at| Event::WorkerLost { at }),
            time.clone().prop_map(|at| Event::SoloCrash { at }),
            time.prop_map(|until| Event::Deferred { until }),
        ]
    }

    proptest! {
        #[test]
        fn a_slot_is_read_back_and_a_flipped_bit_noticed(
            event in event(), offset: u32, salt: u32, bit in 0..SLOT * 8,
        ) {
            let mut slot = event.encode(offset, salt);
            prop_assert_eq!(Event::decode(&slot, salt), Some((offset, event)));
            prop_assert_eq!(Event::decode(&slot, salt ^ 1), None);
            slot[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Event::decode(&slot, salt), None);
        }
    }
}
