//! Write-ahead log: the active segment, segment roll-over, and the shared write and sync of a group commit.

use super::{
    Engine,
    commit::{CommitError, Request},
};
use crate::{
    disk::{DiskFile, is_full},
    record::{Commit, Position, RecordHeader, record_size},
    segment::{self, FIRST_RECORD},
};
use std::{io, sync::Arc};

/// Number of segment numbers reserved at a time.
const SEGMENT_NUMBERS: u32 = 64;
/// Maximum file size: journals store offsets in 27 bits, in units of 8 bytes.
pub(crate) const MAX_FILE_SIZE: u64 = 1 << 30;

/// Append position of the log.
#[derive(Debug)]
pub(crate) struct Log {
    active: Option<ActiveSegment>,
    next_segment: u32,
    next_size: u64,
    pub(super) spares: Vec<SpareFile>,
    pub(super) next_spare: u32,
    /// Bytes to append to the active segment.
    out: Vec<u8>,
    /// Segments closed for appending. They are sealed in the state only after the effects of their last records are
    /// applied.
    closed: Vec<ClosedSegment>,
}

/// A file to use as a segment.
#[derive(Debug)]
pub(super) struct SpareFile {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) size: u64,
}

/// A segment closed for appending.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClosedSegment {
    /// End of its records.
    pub(super) at: Position,
    /// Whether an I/O error occurred, so that the file contents are unknown.
    pub(super) failed: bool,
}

#[derive(Debug)]
struct ActiveSegment {
    id: u32,
    file: Arc<dyn DiskFile>,
    salt: u32,
    size: u64,
    /// End of the last commit.
    end: u64,
    commit: u32,
}

impl Log {
    pub(crate) fn new(next_segment: u32, first_size: u64, spares: Vec<(u32, Arc<dyn DiskFile>)>) -> Self {
        let next_spare = spares.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        let spares = spares
            .into_iter()
            .filter_map(|(number, file)| Some(SpareFile { number, size: file.len().ok()?, file }))
            .collect();
        let (out, closed) = (Vec::new(), Vec::new());
        Self { active: None, next_segment, next_size: first_size, spares, next_spare, out, closed }
    }

    fn fits(&self, size: usize) -> bool {
        self.active.as_ref().is_some_and(|active| active.end + (self.out.len() + size) as u64 <= active.size)
    }

    /// Closes the active segment for appending.
    fn close_active(&mut self, failed: bool) {
        if let Some(active) = self.active.take() {
            let at = Position { segment: active.id, offset: active.end as u32 };
            self.closed.push(ClosedSegment { at, failed });
        }
    }

    /// Closes the active segment and returns all closed segments.
    pub(super) fn close(&mut self) -> Vec<ClosedSegment> {
        self.close_active(false);
        std::mem::take(&mut self.closed)
    }

    /// Size of the next spare file.
    pub(super) fn next_size(&self) -> u64 {
        self.next_size
    }

    /// Number of the active segment.
    pub(super) fn active(&self) -> Option<u32> {
        self.active.as_ref().map(|active| active.id)
    }
}

/// Result of writing a record: its position.
pub(super) type WriteResult = Result<Position, CommitError>;

impl Engine {
    /// Writes and syncs the records of all requests; returns a result per record, and the closed segments.
    pub(super) fn write(&self, requests: &mut [Request]) -> (Vec<WriteResult>, Vec<ClosedSegment>) {
        let log = &mut *self.log.lock();
        let mut results: Vec<WriteResult> = Vec::new();
        // Index of the first record that is in `out` and not on disk yet.
        let mut unsynced = 0;
        // Set on the first failed roll-over, which then fails all further records that need one.
        let mut no_room: Option<String> = None;
        for request in requests {
            let Request { buffer, records, .. } = request;
            for pending in records {
                // Records of one message are written all or none.
                if pending.is_continuation
                    && let Some(Err(error)) = results.last()
                {
                    let error = error.clone();
                    results.push(Err(error));
                    unsynced = results.len();
                    continue;
                }
                if !log.fits(pending.atomic_bytes) {
                    if no_room.is_none() {
                        self.flush(log, &mut results[unsynced..]);
                        unsynced = results.len();
                        no_room =
                            self.roll_over(log, pending.atomic_bytes).err().map(|error| self.explain(&error));
                    }
                    if let Some(why) = &no_room {
                        // Earlier records are flushed, so that `unsynced` can skip this one.
                        self.flush(log, &mut results[unsynced..]);
                        results.push(Err(CommitError::NotWritten(why.clone())));
                        unsynced = results.len();
                        continue;
                    }
                }
                let Some(active) = &log.active else {
                    results.push(Err(CommitError::NotWritten("there is no segment to write to".into())));
                    unsynced = results.len();
                    continue;
                };
                let record = &mut buffer[pending.start..pending.start + record_size(pending.payload)];
                let commit = Commit { number: active.commit, start: active.end as u32 };
                RecordHeader::write(
                    record,
                    pending.payload,
                    commit,
                    pending.queue,
                    pending.kind,
                    active.salt,
                );
                let offset = (active.end + log.out.len() as u64) as u32;
                log.out.extend_from_slice(record);
                results.push(Ok(Position { segment: active.id, offset }));
            }
        }
        self.flush(log, &mut results[unsynced..]);
        let failed = results.iter().find_map(|result| match result {
            Err(CommitError::NotWritten(why) | CommitError::Unknown(why)) => Some(why.clone()),
            Ok(_) => None,
        });
        if !results.is_empty() {
            self.set_outage(failed);
        }
        (results, std::mem::take(&mut log.closed))
    }

    /// Writes and syncs `out`; on failure, fails these records.
    fn flush(&self, log: &mut Log, unsynced: &mut [WriteResult]) {
        let Some(active) = &mut log.active else { return };
        if log.out.is_empty() {
            return;
        }
        let written = active.file.write_at(&log.out, active.end).and_then(|()| active.file.sync());
        active.commit += 1;
        if let Err(error) = written {
            // Zeroed, so that recovery does not take a partial write for a record.
            log.out.fill(0);
            let _ = active.file.write_at(&log.out, active.end);
            tracing::error!(%error, "a commit failed");
            let text = self.explain(&error);
            for result in unsynced {
                *result = Err(CommitError::Unknown(text.clone()));
            }
            log.out.clear();
            // After a failed sync the page contents are unknown: never write to this file again.
            log.close_active(true);
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

    /// Rolls over to a new segment with room for this many bytes.
    fn roll_over(&self, log: &mut Log, bytes: usize) -> io::Result<()> {
        let needed = u64::from(FIRST_RECORD) + bytes as u64;
        let spare = self.spare(log, needed)?;
        let id = log.next_segment;
        // The number is used up even on failure, since a file of that name may exist.
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
        log.next_size = (spare.size * 2).clamp(self.sizes.first_segment, self.sizes.max_segment);
        log.close_active(false);
        let size = spare.size.min(MAX_FILE_SIZE.max(needed));
        let end = u64::from(FIRST_RECORD);
        log.active = Some(ActiveSegment { id, file: spare.file, salt: segment.salt, size, end, commit: 1 });
        self.state.lock().segments.insert(id, segment);
        Ok(())
    }

    /// The largest sufficient spare, or a new one: of the preferred size, or smaller on a nearly full disk.
    fn spare(&self, log: &mut Log, needed: u64) -> io::Result<SpareFile> {
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
                Ok(file) => return Ok(SpareFile { number, file, size }),
                Err(error) if is_full(&error) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Reserves a segment number in the catalog; returns the id of the directory.
    fn reserve_segment(&self, id: u32) -> io::Result<u64> {
        let _guard = self.catalog_lock.lock();
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
