//! Housekeeping: syncing journals, recycling segments, and moving stragglers out of nearly empty ones.

use super::{Engine, Request, commit::Effect, log::Spare, state::State};
use crate::{
    index::Life,
    record::Kind,
    recover::DEATH_NUMBERS,
    reserve,
    segment::{self, FIRST_RECORD, Segment},
};
use std::io;

/// How many unused files are kept for segments to come.
const SPARES: usize = 2;
/// Stragglers are moved out of a segment once they take less than this share of it.
const STRAGGLERS: u64 = 4;
/// Stragglers are moved in requests of about this size, and after looking at this many messages.
const MOVE_BYTES: u64 = 1 << 20;
const MOVE_LOOKS: usize = 1 << 14;

impl Engine {
    /// Makes what the journals say durable; `false` if that failed for one of them.
    pub(crate) fn sync_journals(&self) -> bool {
        let files: Vec<_> = self
            .state
            .lock()
            .segments
            .iter_mut()
            .filter_map(|(id, segment)| Some((*id, segment.journal.take_unsynced()?)))
            .collect();
        let mut all = true;
        for (id, file) in files {
            if let Err(error) = file.sync() {
                tracing::warn!(%error, "cannot sync a journal; after a power cut, settled messages may come back");
                all = false;
                if let Some(segment) = self.state.lock().segments.get_mut(&id) {
                    segment.journal.note_unsynced();
                }
            }
        }
        all
    }

    /// Holds some space back, and has a spare segment ready before it is needed.
    pub(crate) fn prepare(&self) {
        if !self.state.lock().holds_reserve() {
            // The state is not locked while the disk takes its time.
            let taken = reserve::take(&*self.disk, self.sizes.reserve);
            self.state.lock().reserve_filled(taken);
            // On a disk that is nearly full, what is free belongs to those who settle.
            if !taken {
                return;
            }
        }
        let (number, size) = {
            let mut log = self.log.lock();
            if log.active().is_none() || !log.spares.is_empty() {
                return;
            }
            log.next_spare += 1;
            (log.next_spare - 1, log.next_size())
        };
        match segment::create_spare(&*self.disk, number, size, self.sizes.reserve) {
            Ok(file) => self.log.lock().spares.push(Spare { number, file, size }),
            Err(error) => tracing::debug!(%error, "no room for a spare segment"),
        }
    }

    /// Reserves more numbers for dead letters before those that were reserved are used up.
    pub(crate) fn reserve_deaths(&self) {
        let _turn = self.catalog_turn.lock();
        let catalog = {
            let state = self.state.lock();
            if state.next_death + DEATH_NUMBERS / 2 < state.catalog.unused_death {
                return;
            }
            let mut catalog = state.catalog.clone();
            catalog.unused_death = state.next_death + 10 * DEATH_NUMBERS;
            catalog
        };
        match catalog.save(&*self.disk) {
            Ok(()) => self.state.lock().catalog = catalog,
            Err(error) => tracing::debug!(%error, "no numbers for dead letters are reserved"),
        }
    }

    /// Ends the active segment when its journal has grown large, so that it can be rewritten.
    pub(crate) fn bound_active_journal(&self) {
        let mut log = self.log.lock();
        let mut state = self.state.lock();
        let active = log.active().and_then(|id| state.segments.get(&id));
        if active.is_some_and(|segment| segment.has_large_journal(self.sizes.large_journal)) {
            let ended = log.end();
            state.seal(&ended);
        }
    }

    /// Keeps the files of segments that nobody needs for later use, or removes them.
    pub(crate) fn recycle(&self) {
        let mut garbage = self.state.lock().take_garbage();
        if garbage.is_empty() {
            return;
        }
        // Which of several copies counts was decided by journals that are about to go: the others must
        // say so by themselves, also after a power cut. So must the ones that go, until they are gone.
        let mut synced = self.sync_journals();
        for (_, segment) in &mut garbage {
            if let Some(file) = segment.journal.take_unsynced() {
                synced &= file.sync().is_ok();
            }
        }
        if !synced {
            tracing::warn!(
                "settled segments are kept until the next start, since a journal cannot be synced"
            );
            return;
        }
        for (id, segment) in garbage {
            if let Err(error) = self.recycle_one(id, segment) {
                tracing::warn!(%error, segment = id, "cannot remove a settled segment; the next start will");
            }
        }
        if let Err(error) = self.disk.sync_dir() {
            tracing::warn!(%error, "cannot sync the directory; after a power cut, settled messages may come back");
        }
    }

    fn recycle_one(&self, id: u32, segment: Segment) -> io::Result<()> {
        let size = segment.file.len()?;
        let mut log = self.log.lock();
        // The data goes first: without its journal, all of it would come back.
        if log.spares.len() < SPARES && size <= self.sizes.largest_segment && !segment.failed {
            let number = log.next_spare;
            log.next_spare += 1;
            self.disk.rename(&segment::data_name(id), &segment::spare_name(number))?;
            log.spares.push(Spare { number, file: segment.file, size });
        } else {
            self.disk.remove(&segment::data_name(id))?;
        }
        drop(log);
        self.disk.remove(&segment::journal_name(id))
    }

    /// Looks anew for stragglers. What is being moved is left alone.
    pub(crate) fn start_relocating(&self) {
        for segment in self.state.lock().segments.values_mut().filter(|segment| segment.pins == 0) {
            segment.looked_at = 0;
        }
    }

    /// Copies some of what is left in segments that are nearly settled, so that they can go. An empty
    /// request means that there was nothing among those looked at; `None` that all were looked at since
    /// [`start_relocating`](Engine::start_relocating).
    pub(crate) fn relocate_stragglers(&self) -> Option<Request> {
        let mut state = self.state.lock();
        let id = state.segment_worth_leaving(self.sizes.large_journal)?;
        let (mut request, mut bytes, mut looks) = (Request::default(), 0, 0);
        while bytes < MOVE_BYTES && looks < MOVE_LOOKS {
            let segment = state.segments.get_mut(&id)?;
            let Some(slot) = segment.slots.get(segment.looked_at).copied() else { break };
            segment.looked_at += 1;
            looks += 1;
            let entry = *state.slab.get(slot);
            // A slot may have been given away since; a message that is out moves when it comes back.
            if entry.place.segment != id || !matches!(entry.life, Life::Waiting | Life::Dead) {
                continue;
            }
            let Ok((mut stored, carried)) = state.with_history(slot) else { continue };
            if request.has_relocation_of(slot) {
                continue;
            }
            stored.carried = Some(carried);
            stored.due = state.due_of(slot);
            let kind = if entry.life == Life::Dead { Kind::Dead } else { Kind::Copy };
            let effect = Effect::Relocate { slot, from: entry.place, stamp: entry.stamp };
            request.add(entry.queue, kind, &stored.parts(), effect);
            bytes += u64::from(entry.payload);
            if let Some(segment) = state.segments.get_mut(&id) {
                segment.pins += 1;
            }
        }
        Some(request)
    }

    /// Finishes the active segment, so that the next start knows where it ended.
    pub(crate) fn finish(&self) {
        let ended = self.log.lock().end();
        self.state.lock().seal(&ended);
        self.recycle();
        self.sync_journals();
    }
}

impl Segment {
    fn has_large_journal(&self, large: u64) -> bool {
        self.journal.size() > large.max(2 * u64::from(self.end - FIRST_RECORD))
    }
}

impl State {
    fn segment_worth_leaving(&self, large_journal: u64) -> Option<u32> {
        let worth = |segment: &Segment| {
            let used = u64::from(segment.end - FIRST_RECORD);
            segment.sealed
                && segment.looked_at < segment.slots.len()
                && (segment.live_bytes * STRAGGLERS < used || segment.has_large_journal(large_journal))
        };
        self.segments.iter().find(|(_, segment)| worth(segment)).map(|(id, _)| *id)
    }
}
