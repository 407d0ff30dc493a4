//! Housekeeping: syncing journals, recycling segments, and moving stragglers out of nearly empty ones.

use super::{
    Engine, Request,
    commit::{Effect, Spare},
    state::{State, lock},
};
use crate::{
    index::{Life, Slot},
    record::{Kind, Place},
    segment::{self, FIRST_RECORD, Segment},
};
use crawlway_broker::Timestamp;
use std::collections::HashMap;

/// How many unused files are kept for segments to come.
const SPARES: usize = 2;
/// Stragglers are moved out of a segment once they take less than this share of it.
const STRAGGLERS: u64 = 4;
/// A journal may grow to this many bytes, and to twice its segment, before the segment is rewritten.
const LARGE_JOURNAL: u64 = 16 << 20;
/// Stragglers are moved in requests of about this size.
const MOVE_BYTES: u64 = 1 << 20;

impl Engine {
    /// Makes what the journals say durable.
    pub(crate) fn sync_journals(&self) {
        let files: Vec<_> = lock(&self.state)
            .segments
            .values_mut()
            .filter_map(|segment| segment.journal.take_unsynced())
            .collect();
        for file in files {
            if let Err(error) = file.sync() {
                tracing::warn!(%error, "cannot sync a journal; after a power cut, settled messages may come back");
            }
        }
    }

    /// Holds some space back, and has a spare segment ready before it is needed.
    pub(crate) fn prepare(&self) {
        lock(&self.state).fill_reserve();
        let (number, size) = {
            let mut log = lock(&self.log);
            if !log.has_active() || !log.spares.is_empty() {
                return;
            }
            log.next_spare += 1;
            (log.next_spare - 1, log.next_size())
        };
        match segment::create_spare(&*self.disk, number, size) {
            Ok(file) => lock(&self.log).spares.push(Spare { number, file, size }),
            Err(error) => tracing::debug!(%error, "no room for a spare segment"),
        }
    }

    /// Keeps the files of segments that nobody needs for later use, or removes them.
    pub(crate) fn recycle(&self, garbage: Vec<(u32, Segment)>) {
        if garbage.is_empty() {
            return;
        }
        // Which of several copies counts was decided by journals that are about to go: the others must
        // say so by themselves, also after a power cut.
        self.sync_journals();
        for (id, segment) in garbage {
            let size = segment.file.len().unwrap_or(0);
            let mut log = lock(&self.log);
            let keep = log.spares.len() < SPARES && size <= self.sizes.largest_segment;
            // The data goes first: without its journal, all of it would come back.
            let gone = if keep {
                let number = log.next_spare;
                log.next_spare += 1;
                let renamed = self.disk.rename(&segment::data_name(id), &segment::spare_name(number));
                if renamed.is_ok() {
                    log.spares.push(Spare { number, file: segment.file, size });
                }
                renamed
            } else {
                self.disk.remove(&segment::data_name(id))
            };
            drop(log);
            if let Err(error) = gone.and_then(|()| self.disk.remove(&segment::journal_name(id))) {
                tracing::warn!(%error, segment = id, "cannot remove a settled segment; the next start will");
            }
        }
    }

    /// Looks anew for segments to leave.
    pub(crate) fn start_relocating(&self) {
        for segment in lock(&self.state).segments.values_mut() {
            segment.relocating = false;
        }
    }

    /// Copies what is left of the next segment that is nearly settled, so that it can go; `None` when no
    /// segment is left to look at since [`start_relocating`](Engine::start_relocating).
    pub(crate) fn relocate_stragglers(&self, now: Timestamp) -> Option<Vec<Request>> {
        let mut state = lock(&self.state);
        let id = state.segment_worth_leaving()?;
        let segment = state.segments.get_mut(&id)?;
        segment.relocating = true;
        let mut slots = segment.slots.clone();
        slots.sort_unstable();
        slots.dedup();
        let (mut requests, mut request, mut bytes, mut pins) = (Vec::new(), Request::default(), 0, 0);
        let homes = state.homes(&slots, id, now);
        for slot in slots {
            let entry = *state.slab.get(slot);
            let Some((queue, due)) = homes.get(&slot).copied() else { continue };
            let Ok((mut stored, carried)) = state.with_history(slot) else { continue };
            stored.carried = Some(carried);
            stored.due = due;
            let kind = if entry.life == Life::Dead { Kind::Dead } else { Kind::Copy };
            let effect = Effect::Relocate { slot, from: entry.place, stamp: entry.stamp };
            request.add(queue, kind, &stored.parts(), effect);
            pins += 1;
            bytes += u64::from(entry.payload);
            if bytes >= MOVE_BYTES {
                requests.push(std::mem::take(&mut request));
                bytes = 0;
            }
        }
        if !request.is_empty() {
            requests.push(request);
        }
        if let Some(segment) = state.segments.get_mut(&id) {
            segment.pins += pins;
        }
        Some(requests)
    }

    /// Finishes the active segment, so that the next start knows where it ended.
    pub(crate) fn finish(&self) {
        let ended = lock(&self.log).end();
        let mut state = lock(&self.state);
        state.seal(&ended);
        let garbage = std::mem::take(&mut state.garbage);
        drop(state);
        self.recycle(garbage);
        self.sync_journals();
    }
}

impl State {
    fn segment_worth_leaving(&self) -> Option<u32> {
        self.segments
            .iter()
            .find(|(_, segment)| {
                let used = u64::from(segment.end - FIRST_RECORD);
                let journal = segment.journal.size();
                segment.sealed
                    && !segment.relocating
                    && segment.pins == 0
                    && (segment.live_bytes * STRAGGLERS < used || journal > LARGE_JOURNAL.max(used * 2))
            })
            .map(|(id, _)| *id)
    }

    /// Of these messages, those that lie in the segment and may be moved: their queue and when they are due.
    fn homes(&self, slots: &[Slot], segment: u32, now: Timestamp) -> HashMap<Slot, (u16, Timestamp)> {
        let here = |place: Place| place.segment == segment;
        let mut homes = HashMap::new();
        for slot in slots {
            let entry = self.slab.get(*slot);
            if here(entry.place) && matches!(entry.life, Life::Waiting | Life::Dead) {
                homes.insert(*slot, (entry.queue, Timestamp::default()));
            }
        }
        for (number, queue) in self.queues.iter().enumerate() {
            for (slot, due) in queue.dues() {
                if let Some(home) = homes.get_mut(&slot)
                    && home.0 == number as u16
                {
                    home.1 = due;
                }
            }
        }
        for (slot, (queue, due)) in &mut homes {
            if let Some(ahead) = self.queues[*queue as usize].due_of(*slot).filter(|due| *due > now) {
                *due = ahead;
            }
        }
        homes
    }
}
