//! The journal beside each segment: what has happened to its records since they were written.
//!
//! Slots of 16 bytes, appended, each with its own checksum, so that a damaged slot costs that slot only:
//!
//! ```text
//! 0   1   what happened
//! 1   7   an argument: a time in milliseconds, or a place (29 bits of segment, 27 of offset in units of 8)
//! 8   4   the record's offset in the segment
//! 12  4   checksum, salted like the segment's records
//! ```
//!
//! Journals are written through to the operating system before a call returns, which a killed process
//! cannot undo; they are synced about once a second, so a power cut may undo the last second of them.

use crate::{
    disk::DiskFile,
    record::{ALIGN, Place},
};
use crawlway_broker::Timestamp;
use std::{collections::HashMap, io, sync::Arc};

pub(crate) const SLOT: usize = 16;

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Handed to a receiver.
    Delivered,
    /// Settled, purged, dropped or set aside: never needed again.
    Done,
    /// Its receiver was lost at this time.
    Lost { at: Timestamp },
    /// Its receiver runs nothing else from now on.
    Alone,
    /// Its receiver was lost at this time, with its process, which ran nothing else.
    SoloCrash { at: Timestamp },
    /// Waits until this time.
    Deferred { until: Timestamp },
    /// The copy at this place, and no other, has taken over.
    Moved { to: Place },
    /// Not a record's: this many unreadable bytes were set aside, and their loss reported.
    SetAside { bytes: u64 },
    /// Not a record's: the segment is finished, its records end at this offset and are all synced.
    Sealed,
}

impl Event {
    fn encode(self, offset: u32, salt: u32) -> [u8; SLOT] {
        let (code, argument) = match self {
            Event::Delivered => (1, 0),
            Event::Done => (2, 0),
            Event::Lost { at } => (3, at.as_millis()),
            Event::Deferred { until } => (4, until.as_millis()),
            Event::Moved { to } => (5, u64::from(to.segment) << 27 | u64::from(to.offset / ALIGN as u32)),
            Event::Sealed => (6, 0),
            Event::SetAside { bytes } => (7, bytes),
            Event::Alone => (8, 0),
            Event::SoloCrash { at } => (9, at.as_millis()),
        };
        let mut slot = [0; SLOT];
        // Times beyond 56 bits lie two million years ahead.
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
        let place = || Place {
            segment: (argument >> 27) as u32,
            offset: (argument & ((1 << 27) - 1)) as u32 * ALIGN as u32,
        };
        let event = match slot[0] {
            1 => Event::Delivered,
            2 => Event::Done,
            3 => Event::Lost { at: time },
            4 => Event::Deferred { until: time },
            5 => Event::Moved { to: place() },
            6 => Event::Sealed,
            7 => Event::SetAside { bytes: argument },
            8 => Event::Alone,
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
    /// Goes on at this offset, behind what was read.
    pub(crate) fn open(file: Arc<dyn DiskFile>, salt: u32, end: u64) -> Self {
        Self { file, end, salt, unsynced: false }
    }

    /// Writes the events through to the operating system, all or none of them as far as we can tell.
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

    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        self.end
    }

    /// What was asked for could not be synced after all.
    pub(crate) fn note_unsynced(&mut self) {
        self.unsynced = true;
    }

    /// The file to sync, if something was written since this was last asked.
    pub(crate) fn take_unsynced(&mut self) -> Option<Arc<dyn DiskFile>> {
        std::mem::take(&mut self.unsynced).then(|| self.file.clone())
    }
}

/// What a journal says of one record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) done: bool,
    pub(crate) moved: Option<Place>,
    pub(crate) in_flight: bool,
    /// Its receiver runs nothing else.
    pub(crate) alone: bool,
    /// How many receivers were lost, and how many of them ran nothing else.
    pub(crate) lost: u16,
    pub(crate) solo_crashes: u16,
    pub(crate) first_lost: Timestamp,
    pub(crate) last_lost: Timestamp,
    /// Overrides the record's own time when set.
    pub(crate) deferred: Option<Timestamp>,
    /// How many unreadable bytes from here on were set aside.
    pub(crate) set_aside: Option<u64>,
}

impl History {
    /// Whether the record is needed no more.
    pub(crate) fn is_over(&self) -> bool {
        self.done || self.moved.is_some()
    }

    /// Its receiver was lost at this time.
    pub(crate) fn lose(&mut self, at: Timestamp) {
        if self.lost == 0 {
            self.first_lost = at;
        }
        self.lost = self.lost.saturating_add(1);
        self.last_lost = at;
        (self.in_flight, self.alone) = (false, false);
    }

    /// Whether the record was ever more than a copy waiting to count.
    pub(crate) fn was_used(&self) -> bool {
        self.in_flight || self.lost > 0 || self.deferred.is_some() || self.moved.is_some()
    }
}

/// Everything a journal says, and how many slots were unreadable.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    pub(crate) by_offset: HashMap<u32, History>,
    /// Where the records ended when the segment was finished, if it was.
    pub(crate) sealed: Option<u32>,
    pub(crate) damaged_slots: u64,
    /// Where the journal ends; zeros behind it never were written.
    pub(crate) end: u64,
}

impl Histories {
    /// Reads a whole journal. Unreadable slots are counted and passed over.
    pub(crate) fn read(file: &dyn DiskFile, salt: u32) -> io::Result<Self> {
        let mut histories = Histories::default();
        let length = file.len()?;
        let mut buffer = vec![0; 64 * 1024];
        let mut at = 0;
        // Zeros at the very end are a tail that never reached the disk, not damage.
        let mut zeros = 0;
        while at < length {
            let read = file.read_at(&mut buffer, at)?;
            if read < SLOT {
                break;
            }
            let whole = read / SLOT * SLOT;
            for (n, slot) in buffer[..whole].as_chunks::<SLOT>().0.iter().enumerate() {
                if *slot != [0; SLOT] {
                    histories.end = at + ((n + 1) * SLOT) as u64;
                }
                if let Some((offset, event)) = Event::decode(slot, salt) {
                    histories.note(offset, event);
                    histories.damaged_slots += std::mem::take(&mut zeros);
                } else if *slot == [0; SLOT] {
                    zeros += 1;
                } else {
                    histories.damaged_slots += 1;
                }
            }
            at += whole as u64;
        }
        Ok(histories)
    }

    fn note(&mut self, offset: u32, event: Event) {
        if event == Event::Sealed {
            self.sealed = Some(offset);
            return;
        }
        let history = self.by_offset.entry(offset).or_default();
        match event {
            Event::Delivered => (history.in_flight, history.alone) = (true, false),
            Event::Alone => history.alone = true,
            Event::Done => history.done = true,
            Event::Moved { to } => history.moved = Some(to),
            Event::SetAside { bytes } => history.set_aside = Some(bytes),
            Event::Sealed => {}
            Event::Lost { at } | Event::SoloCrash { at } => {
                let solo = matches!(event, Event::SoloCrash { .. });
                history.solo_crashes = history.solo_crashes.saturating_add(u16::from(solo));
                history.lose(at);
            }
            Event::Deferred { until } => {
                history.deferred = Some(until);
                (history.in_flight, history.alone) = (false, false);
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
                .prop_map(|(segment, n)| Event::Moved { to: Place { segment, offset: n * 8 } }),
            Just(Event::Sealed),
            (0u64..1 << 56).prop_map(|bytes| Event::SetAside { bytes }),
            Just(Event::Alone),
            time.clone().prop_map(|at| Event::Lost { at }),
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
