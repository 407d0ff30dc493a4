//! Housekeeping: journal sync, spare files, recycling of segments, and compaction.

use super::{Engine, Request, commit::Effect, log::SpareFile, state::State};
use crate::{
    index::MessageState,
    record::Kind,
    recover::DEAD_LETTER_NUMBERS,
    reserve::{self, Reserve},
    segment::{self, FIRST_RECORD, Segment},
};
use std::io;

/// Number of spare files to keep.
const MAX_SPARES: usize = 2;
/// Compaction threshold: live records take less than 1/4 of the segment. A segment with an oversized journal is compacted, too; see
/// [`State::compaction_candidate`].
const COMPACTION_FACTOR: u64 = 4;
/// Limits of a compaction batch: bytes copied and entries visited.
const MAX_COMPACTION_BYTES: u64 = 1 << 20;
const MAX_COMPACTION_ENTRIES: usize = 1 << 14;

impl Engine {
    /// Syncs all journals; `false` if one failed.
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
                tracing::warn!(%error, "cannot sync a journal; after a power cut, settled messages may be redelivered");
                all = false;
                if let Some(segment) = self.state.lock().segments.get_mut(&id) {
                    segment.journal.note_unsynced();
                }
            }
        }
        all
    }

    /// Allocates the disk space reserve, and prepares a spare segment ahead of need.
    pub(crate) fn prepare_spare(&self) {
        if !self.state.lock().reserve.held {
            // Slow, so the state is not locked.
            let taken = reserve::allocate(&*self.disk, self.sizes.reserve);
            self.state.lock().reserve = Reserve { held: taken, missing: !taken };
            // On a nearly full disk, free space is left for settling.
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
            Ok(file) => self.log.lock().spares.push(SpareFile { number, file, size }),
            Err(error) => tracing::debug!(%error, "no room for a spare segment"),
        }
    }

    /// Reserves more dead-letter numbers in the catalog ahead of need.
    pub(crate) fn reserve_dead_letter_numbers(&self) {
        let _guard = self.catalog_lock.lock();
        let catalog = {
            let state = self.state.lock();
            if state.next_dead_letter + DEAD_LETTER_NUMBERS / 2 < state.catalog.unused_dead_letter {
                return;
            }
            let mut catalog = state.catalog.clone();
            catalog.unused_dead_letter = state.next_dead_letter + 10 * DEAD_LETTER_NUMBERS;
            catalog
        };
        match catalog.save(&*self.disk) {
            Ok(()) => self.state.lock().catalog = catalog,
            Err(error) => tracing::debug!(%error, "cannot reserve numbers for dead letters"),
        }
    }

    /// Seals the active segment when its journal is oversized, so that it can be compacted.
    pub(crate) fn seal_oversized_journal(&self) {
        let mut log = self.log.lock();
        let mut state = self.state.lock();
        let active = log.active().and_then(|id| state.segments.get(&id));
        if active.is_some_and(|segment| segment.has_oversized_journal(self.sizes.journal_threshold)) {
            let closed = log.close();
            state.seal(&closed);
        }
    }

    /// Recycles the files of garbage segments as spares, or removes them.
    pub(crate) fn recycle(&self) {
        let mut garbage = self.state.lock().take_garbage();
        if garbage.is_empty() {
            return;
        }
        // The removed journals decide which copies are valid. The remaining journals must be durable first, and so must the
        // removed ones until they are gone.
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
            tracing::warn!(%error, "cannot sync the directory; after a power cut, settled messages may be redelivered");
        }
    }

    fn recycle_one(&self, id: u32, segment: Segment) -> io::Result<()> {
        let size = segment.file.len()?;
        let mut log = self.log.lock();
        // The segment goes before its journal: without the journal, all its messages would reappear.
        if log.spares.len() < MAX_SPARES && size <= self.sizes.max_segment && !segment.failed {
            let number = log.next_spare;
            log.next_spare += 1;
            self.disk.rename(&segment::data_name(id), &segment::spare_name(number))?;
            log.spares.push(SpareFile { number, file: segment.file, size });
        } else {
            self.disk.remove(&segment::data_name(id))?;
        }
        drop(log);
        self.disk.remove(&segment::journal_name(id))
    }

    /// Starts a compaction pass over all segments that have no relocation in progress.
    pub(crate) fn start_compaction(&self) {
        for segment in self.state.lock().segments.values_mut().filter(|segment| segment.pins == 0) {
            segment.compaction_cursor = 0;
        }
    }

    /// Prepares the next compaction batch: copies of live records in nearly settled segments. An empty request means
    /// that no visited entry was live; `None` ends the pass that [`start_compaction`](Engine::start_compaction) began.
    pub(crate) fn next_compaction_batch(&self) -> Option<Request> {
        let mut state = self.state.lock();
        let id = state.compaction_candidate(self.sizes.journal_threshold)?;
        let (mut request, mut bytes, mut visited) = (Request::default(), 0, 0);
        while bytes < MAX_COMPACTION_BYTES && visited < MAX_COMPACTION_ENTRIES {
            let segment = state.segments.get_mut(&id)?;
            let Some(slot) = segment.slots.get(segment.compaction_cursor).copied() else { break };
            segment.compaction_cursor += 1;
            visited += 1;
            let entry = *state.slab.get(slot);
            // The slot may be reused. A message in flight is copied when it is settled.
            if entry.position.segment != id
                || !matches!(entry.state, MessageState::Pending | MessageState::Dead)
            {
                continue;
            }
            let Ok((mut stored, history)) = state.with_history(slot) else { continue };
            if request.relocates(slot) {
                continue;
            }
            stored.history = Some(history);
            stored.due = state.due_of(slot);
            let kind = if entry.state == MessageState::Dead { Kind::Dead } else { Kind::Copy };
            let effect = Effect::Relocate { slot, from: entry.position, generation: entry.generation };
            request.add(entry.queue, kind, &stored.parts(), effect);
            bytes += u64::from(entry.payload);
            if let Some(segment) = state.segments.get_mut(&id) {
                segment.pins += 1;
            }
        }
        Some(request)
    }

    /// Seals the active segment on shutdown.
    pub(crate) fn finish(&self) {
        let closed = self.log.lock().close();
        self.state.lock().seal(&closed);
        self.recycle();
        self.sync_journals();
    }
}

impl Segment {
    fn has_oversized_journal(&self, large: u64) -> bool {
        self.journal.size() > large.max(2 * u64::from(self.end - FIRST_RECORD))
    }
}

impl State {
    fn compaction_candidate(&self, journal_threshold: u64) -> Option<u32> {
        let worth = |segment: &Segment| {
            let used = u64::from(segment.end - FIRST_RECORD);
            segment.sealed
                && segment.compaction_cursor < segment.slots.len()
                && (segment.live_bytes * COMPACTION_FACTOR < used
                    || segment.has_oversized_journal(journal_threshold))
        };
        self.segments.iter().find(|(_, segment)| worth(segment)).map(|(id, _)| *id)
    }
}
