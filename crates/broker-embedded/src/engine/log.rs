//! Where the next record goes: the active segment, the next one, and the write and sync that all requests share.

use super::{
    Engine,
    commit::{CommitError, Request},
};
use crate::{
    disk::{DiskFile, is_full},
    record::{Commit, Head, Place, record_size},
    segment::{self, FIRST_RECORD},
};
use std::{io, sync::Arc};

/// Segment numbers are reserved this many at a time.
const SEGMENT_NUMBERS: u32 = 64;
/// No file is larger than this, and no record starts behind it: a journal has 27 bits for where.
pub(crate) const LARGEST_FILE: u64 = 1 << 30;

/// Where the next record goes.
#[derive(Debug)]
pub(crate) struct Log {
    active: Option<Active>,
    next_segment: u32,
    next_size: u64,
    pub(super) spares: Vec<Spare>,
    pub(super) next_spare: u32,
    /// What is about to be written at the end of the active segment.
    out: Vec<u8>,
    /// Segments that take no more records. They stay open in the books until the records that were just
    /// written to them are there, too.
    ended: Vec<Ended>,
}

/// A file that can become a segment.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) size: u64,
}

/// A segment that takes no more records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// Where its records end.
    pub(super) at: Place,
    /// Its disk has failed; nobody knows what the file holds.
    pub(super) failed: bool,
}

#[derive(Debug)]
struct Active {
    id: u32,
    file: Arc<dyn DiskFile>,
    salt: u32,
    size: u64,
    /// Where the last commit ended.
    end: u64,
    commit: u32,
}

impl Log {
    pub(crate) fn new(next_segment: u32, first_size: u64, spares: Vec<(u32, Arc<dyn DiskFile>)>) -> Self {
        let next_spare = spares.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        let spares = spares
            .into_iter()
            .filter_map(|(number, file)| Some(Spare { number, size: file.len().ok()?, file }))
            .collect();
        let (out, ended) = (Vec::new(), Vec::new());
        Self { active: None, next_segment, next_size: first_size, spares, next_spare, out, ended }
    }

    fn fits(&self, size: usize) -> bool {
        self.active.as_ref().is_some_and(|active| active.end + (self.out.len() + size) as u64 <= active.size)
    }

    /// The active segment takes no more records.
    fn end_active(&mut self, failed: bool) {
        if let Some(active) = self.active.take() {
            let at = Place { segment: active.id, offset: active.end as u32 };
            self.ended.push(Ended { at, failed });
        }
    }

    /// Ends the active segment, be it full or not.
    pub(super) fn end(&mut self) -> Vec<Ended> {
        self.end_active(false);
        std::mem::take(&mut self.ended)
    }

    /// How large the next spare should be.
    pub(super) fn next_size(&self) -> u64 {
        self.next_size
    }

    /// The number of the active segment.
    pub(super) fn active(&self) -> Option<u32> {
        self.active.as_ref().map(|active| active.id)
    }
}

/// One record of a commit: where it went, if it did.
pub(super) type Placed = Result<Place, CommitError>;

impl Engine {
    /// Writes and syncs the records of all requests; says of each where it went, and which segments ended.
    pub(super) fn write(&self, requests: &mut [Request]) -> (Vec<Placed>, Vec<Ended>) {
        let log = &mut *self.log.lock();
        let mut placed: Vec<Placed> = Vec::new();
        // From here on in `placed`, records are in `out` and not on disk yet.
        let mut unsynced = 0;
        // A disk that has no room for one segment has none for the next record either.
        let mut no_room: Option<String> = None;
        for request in requests {
            let Request { buffer, marks, .. } = request;
            for mark in marks {
                // All records of one message stand together, or none does.
                if mark.continues
                    && let Some(Err(error)) = placed.last()
                {
                    let error = error.clone();
                    placed.push(Err(error));
                    unsynced = placed.len();
                    continue;
                }
                if !log.fits(mark.together) {
                    if no_room.is_none() {
                        self.flush(log, &mut placed[unsynced..]);
                        unsynced = placed.len();
                        no_room = self.roll(log, mark.together).err().map(|error| self.explain(&error));
                    }
                    if let Some(why) = &no_room {
                        // What was placed before is flushed, so that `unsynced` can pass over this one.
                        self.flush(log, &mut placed[unsynced..]);
                        placed.push(Err(CommitError::NotWritten(why.clone())));
                        unsynced = placed.len();
                        continue;
                    }
                }
                let Some(active) = &log.active else {
                    placed.push(Err(CommitError::NotWritten("there is no segment to write to".into())));
                    unsynced = placed.len();
                    continue;
                };
                let record = &mut buffer[mark.start..mark.start + record_size(mark.payload)];
                let commit = Commit { number: active.commit, start: active.end as u32 };
                Head::write(record, mark.payload, commit, mark.queue, mark.kind, active.salt);
                let offset = (active.end + log.out.len() as u64) as u32;
                log.out.extend_from_slice(record);
                placed.push(Ok(Place { segment: active.id, offset }));
            }
        }
        self.flush(log, &mut placed[unsynced..]);
        let failed = placed.iter().find_map(|placed| match placed {
            Err(CommitError::NotWritten(why) | CommitError::Unknown(why)) => Some(why.clone()),
            Ok(_) => None,
        });
        if !placed.is_empty() {
            self.note_outage(failed);
        }
        (placed, std::mem::take(&mut log.ended))
    }

    /// Writes and syncs what is in `out`; if that fails, so has each of these records.
    fn flush(&self, log: &mut Log, unsynced: &mut [Placed]) {
        let Some(active) = &mut log.active else { return };
        if log.out.is_empty() {
            return;
        }
        let written = active.file.write_at(&log.out, active.end).and_then(|()| active.file.sync());
        active.commit += 1;
        if let Err(error) = written {
            // What may stand there now must not be taken for a record by a later start, which reads no
            // further than where the segment ended.
            log.out.fill(0);
            let _ = active.file.write_at(&log.out, active.end);
            tracing::error!(%error, "a commit failed");
            let text = self.explain(&error);
            for placed in unsynced {
                *placed = Err(CommitError::Unknown(text.clone()));
            }
            log.out.clear();
            // After a failed sync nobody knows what the pages hold: never write to this file again.
            log.end_active(true);
            return;
        }
        active.end += log.out.len() as u64;
        let (id, end) = (active.id, active.end);
        log.out.clear();
        if log.out.capacity() > 4 << 20 {
            log.out = Vec::new();
        }
        if let Some(segment) = self.state.lock().segments.get_mut(&id) {
            segment.end = end as u32;
        }
    }

    /// Finishes the active segment and starts one that has room for this many bytes.
    fn roll(&self, log: &mut Log, bytes: usize) -> io::Result<()> {
        let needed = u64::from(FIRST_RECORD) + bytes as u64;
        let spare = self.spare(log, needed)?;
        let id = log.next_segment;
        // Whatever happens, this number is used up: a file of that name may exist from here on.
        log.next_segment += 1;
        let adopted = self.reserve_segment(id).and_then(|directory| {
            segment::adopt_spare(&*self.disk, spare.number, spare.file.clone(), directory, id)
        });
        let segment = match adopted {
            Ok(segment) => segment,
            Err(error) => {
                for name in
                    [segment::spare_name(spare.number), segment::data_name(id), segment::journal_name(id)]
                {
                    let _ = self.disk.remove(&name);
                }
                return Err(error);
            }
        };
        log.next_size = (spare.size * 2).clamp(self.sizes.first_segment, self.sizes.largest_segment);
        log.end_active(false);
        let size = spare.size.min(LARGEST_FILE.max(needed));
        let end = u64::from(FIRST_RECORD);
        log.active = Some(Active { id, file: spare.file, salt: segment.salt, size, end, commit: 1 });
        self.state.lock().segments.insert(id, segment);
        Ok(())
    }

    /// The largest spare that is large enough, or a new one: of the size wanted, or smaller if the disk is
    /// nearly full.
    fn spare(&self, log: &mut Log, needed: u64) -> io::Result<Spare> {
        let usable = log.spares.iter().enumerate().filter(|(_, spare)| spare.size >= needed);
        if let Some((index, _)) = usable.max_by_key(|(_, spare)| spare.size) {
            return Ok(log.spares.swap_remove(index));
        }
        let wanted = log.next_size.max(needed);
        let mut sizes = vec![wanted, self.sizes.first_segment.max(needed), needed];
        sizes.dedup();
        let mut refused = io::Error::from(io::ErrorKind::StorageFull);
        for size in sizes {
            let number = log.next_spare;
            log.next_spare += 1;
            match segment::create_spare(&*self.disk, number, size, self.sizes.reserve) {
                Ok(file) => return Ok(Spare { number, file, size }),
                Err(error) if is_full(&error) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Makes sure that the catalog knows this number as used, and says whose directory this is.
    fn reserve_segment(&self, id: u32) -> io::Result<u64> {
        let _turn = self.catalog_turn.lock();
        let mut catalog = self.state.lock().catalog.clone();
        let directory = catalog.directory;
        if id >= catalog.unused_segment {
            catalog.unused_segment = id + SEGMENT_NUMBERS;
            catalog.save(&*self.disk)?;
            self.state.lock().catalog = catalog;
        }
        Ok(directory)
    }
}
