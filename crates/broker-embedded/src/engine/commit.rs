//! Group commit: many requests, one write, one sync, and only then does anything come true.

use super::{
    Engine,
    state::{State, lock},
};
use crate::{
    disk::DiskFile,
    index::{Life, Slot},
    journal::Event,
    record::{Commit, HEADER, Head, Kind, Parts, Place, record_size},
    segment::{self, FIRST_RECORD},
};
use crawlway_broker::Timestamp;
use std::{io, sync::Arc, time::Duration};

/// Segment numbers are reserved this many at a time.
const SEGMENT_NUMBERS: u32 = 64;
/// A dead letter that could not be written is tried again after this time.
const BURY_AGAIN: Duration = Duration::from_secs(1);

/// Why a record was not made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommitError {
    /// It is certainly not in the log.
    NotWritten(String),
    /// The disk failed halfway; it may turn up after a restart.
    Unknown(String),
}

/// What comes true once a record is durable.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A new message waits.
    Publish { born: u32, due: Timestamp, group: Option<Box<str>> },
    /// A delivery that failed waits for its next attempt.
    Requeue { slot: Slot, tag: Option<u64>, due: Timestamp, attempts: u32 },
    /// A delivery, or a message whose receiver was lost (without a tag), is dead.
    Bury { slot: Slot, tag: Option<u64>, number: u64, attempts: u32 },
    /// A dead letter waits again.
    Revive { slot: Slot, number: u64, group: Option<Box<str>> },
    /// A message lies elsewhere and is otherwise as it was, unless it was touched meanwhile.
    Relocate { slot: Slot, from: Place, stamp: u8 },
}

#[derive(Debug)]
struct Mark {
    start: usize,
    payload: usize,
    queue: u16,
    kind: Kind,
    effect: Effect,
}

type Reply = Box<dyn FnOnce(Vec<Result<(), CommitError>>) + Send>;

/// Records to write, what comes of each, and whom to tell.
#[derive(Default)]
pub(crate) struct Request {
    buffer: Vec<u8>,
    marks: Vec<Mark>,
    reply: Option<Reply>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("marks", &self.marks).finish_non_exhaustive()
    }
}

impl Request {
    pub(crate) fn add(&mut self, queue: u16, kind: Kind, parts: &Parts<'_>, effect: Effect) {
        let start = self.buffer.len();
        let payload = parts.append_record(&mut self.buffer);
        self.marks.push(Mark { start, payload, queue, kind, effect });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Says whom to tell, with one result per record.
    pub(crate) fn on_reply(&mut self, reply: impl FnOnce(Vec<Result<(), CommitError>>) + Send + 'static) {
        self.reply = Some(Box::new(reply));
    }
}

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
    /// Where segments ended that take no more records. They stay open in the books until the records
    /// that were just written to them are there, too.
    ended: Vec<Place>,
}

#[derive(Debug)]
pub(super) struct Spare {
    pub(super) number: u32,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) size: u64,
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
        Self {
            active: None,
            next_segment,
            next_size: first_size,
            spares,
            next_spare,
            out: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The active segment takes no more records.
    fn end_active(&mut self) {
        if let Some(active) = self.active.take() {
            self.ended.push(Place { segment: active.id, offset: active.end as u32 });
        }
    }

    /// Ends the log for this run.
    pub(super) fn end(&mut self) -> Vec<Place> {
        self.end_active();
        std::mem::take(&mut self.ended)
    }

    /// How large the next spare should be.
    pub(super) fn next_size(&self) -> u64 {
        self.next_size
    }

    pub(super) fn has_active(&self) -> bool {
        self.active.is_some()
    }
}

/// A record that a copy has replaced.
struct Moved {
    from: Place,
    payload: u32,
    to: Place,
}

/// One record of a commit: where it went, if it did.
type Placed = Result<Place, CommitError>;

impl Engine {
    /// Writes and syncs all requests together, lets what they bring come true, and replies.
    pub(crate) fn commit(&self, mut requests: Vec<Request>, now: Timestamp) {
        let (placed, ended) = self.write(&mut requests);
        let mut replies = Vec::with_capacity(requests.len());
        let mut state = lock(&self.state);
        let mut placed = placed.into_iter();
        for request in requests {
            let mut outcomes = Vec::with_capacity(request.marks.len());
            let mut moved = Vec::new();
            for (mark, placed) in request.marks.into_iter().zip(&mut placed) {
                outcomes.push(match placed {
                    Ok(place) => {
                        state.come_true(mark, place, &mut moved, now);
                        Ok(())
                    }
                    Err(error) => {
                        state.come_to_nothing(mark.queue, mark.effect, now);
                        Err(error)
                    }
                });
            }
            // The copies are durable and counted; from here on the originals must not be.
            let events: Vec<_> =
                moved.iter().map(|moved| (moved.from, Event::Moved { to: moved.to })).collect();
            state.record_events(&events);
            for moved in moved {
                state.forget_record(moved.from, moved.payload);
            }
            replies.extend(request.reply.map(|reply| (reply, outcomes)));
        }
        state.seal(&ended);
        let garbage = std::mem::take(&mut state.garbage);
        drop(state);
        for (reply, outcomes) in replies {
            reply(outcomes);
        }
        self.recycle(garbage);
    }

    /// Writes and syncs the records of all requests; says of each where it went, and which segments ended.
    fn write(&self, requests: &mut [Request]) -> (Vec<Placed>, Vec<Place>) {
        let log = &mut *lock(&self.log);
        let mut placed: Vec<Placed> = Vec::new();
        // From here on in `placed`, records are in `out` and not on disk yet.
        let mut unsynced = 0;
        for request in requests {
            let Request { buffer, marks, .. } = request;
            for mark in marks {
                let size = record_size(mark.payload);
                let fits = |log: &Log| {
                    log.active
                        .as_ref()
                        .is_some_and(|active| active.end + (log.out.len() + size) as u64 <= active.size)
                };
                if !fits(log) {
                    self.flush(log, &mut placed[unsynced..]);
                    unsynced = placed.len();
                    if let Err(error) = self.roll(log, size) {
                        placed.push(Err(CommitError::NotWritten(self.explain(&error))));
                        unsynced = placed.len();
                        continue;
                    }
                }
                let Some(active) = &log.active else {
                    placed.push(Err(CommitError::NotWritten("no segment to write to".into())));
                    continue;
                };
                let record = &mut buffer[mark.start..mark.start + size];
                let commit = Commit { number: active.commit, start: active.end as u32 };
                Head::write(record, mark.payload, commit, mark.queue, mark.kind, active.salt);
                let offset = (active.end + log.out.len() as u64) as u32;
                log.out.extend_from_slice(record);
                placed.push(Ok(Place { segment: active.id, offset }));
            }
        }
        self.flush(log, &mut placed[unsynced..]);
        (placed, std::mem::take(&mut log.ended))
    }

    /// Writes and syncs what is in `out`; if that fails, so has each of these records.
    fn flush(&self, log: &mut Log, unsynced: &mut [Placed]) {
        let Some(active) = &mut log.active else { return };
        if log.out.is_empty() {
            return;
        }
        let written = active.file.write_at(&log.out, active.end);
        let synced = match &written {
            Ok(()) => active.file.sync(),
            Err(_) => Ok(()),
        };
        active.commit += 1;
        if let Err(error) = written.and(synced) {
            // What may stand there now must not be taken for a record by a later start.
            log.out.fill(0);
            let _ = active.file.write_at(&log.out, active.end);
            let text = self.explain(&error);
            tracing::error!(%error, "a commit failed");
            for placed in unsynced {
                *placed = Err(CommitError::Unknown(text.clone()));
            }
            // After a failed sync nobody knows what the pages hold: never write to this file again.
            log.out.clear();
            log.end_active();
            return;
        }
        active.end += log.out.len() as u64;
        let (id, end) = (active.id, active.end);
        log.out.clear();
        if log.out.capacity() > 4 << 20 {
            log.out = Vec::new();
        }
        if let Some(segment) = lock(&self.state).segments.get_mut(&id) {
            segment.end = end as u32;
        }
    }

    /// Finishes the active segment and starts one that has room for a record of this size.
    fn roll(&self, log: &mut Log, record: usize) -> io::Result<()> {
        let needed = u64::from(FIRST_RECORD) + record as u64;
        let wanted = log.next_size.max(needed);
        let usable = log.spares.iter().enumerate().filter(|(_, spare)| spare.size >= needed);
        let spare = match usable.max_by_key(|(_, spare)| spare.size).map(|(index, _)| index) {
            Some(index) => log.spares.swap_remove(index),
            None => {
                let number = log.next_spare;
                log.next_spare += 1;
                Spare { number, file: segment::create_spare(&*self.disk, number, wanted)?, size: wanted }
            }
        };
        let id = log.next_segment;
        let directory = match self.reserve_segment(id) {
            Ok(directory) => directory,
            Err(error) => {
                log.spares.push(spare);
                return Err(error);
            }
        };
        let file = spare.file.clone();
        let segment = match segment::adopt_spare(&*self.disk, spare.number, spare.file.clone(), directory, id)
        {
            Ok(segment) => segment,
            Err(error) => {
                log.spares.push(spare);
                return Err(error);
            }
        };
        log.next_segment += 1;
        log.next_size = (wanted * 2).min(self.sizes.largest_segment).max(self.sizes.first_segment);
        log.end_active();
        log.active = Some(Active {
            id,
            file,
            salt: segment.salt,
            size: spare.size.min(u64::from(u32::MAX)),
            end: u64::from(FIRST_RECORD),
            commit: 1,
        });
        lock(&self.state).segments.insert(id, segment);
        Ok(())
    }
    /// Makes sure that the catalog knows this number as used, and says whose directory this is.
    fn reserve_segment(&self, id: u32) -> io::Result<u64> {
        let mut state = lock(&self.state);
        if id >= state.catalog.unused_segment {
            let mut catalog = state.catalog.clone();
            catalog.unused_segment = id + SEGMENT_NUMBERS;
            catalog.save(&*self.disk)?;
            state.catalog = catalog;
        }
        Ok(state.catalog.directory)
    }
}

impl State {
    /// Marks segments as finished; those that nobody needs are garbage now.
    pub(super) fn seal(&mut self, ended: &[Place]) {
        self.record_events(&ended.iter().map(|end| (*end, Event::Sealed)).collect::<Vec<_>>());
        for Place { segment: id, .. } in ended {
            if let Some(segment) = self.segments.get_mut(id) {
                segment.sealed = true;
            }
            self.discard_if_garbage(*id);
        }
    }

    /// A record is durable: what it stands for is now so. Originals of copies are collected in `moved`.
    fn come_true(&mut self, mark: Mark, place: Place, moved: &mut Vec<Moved>, now: Timestamp) {
        let Mark { queue, effect, .. } = mark;
        let payload = mark.payload as u32;
        match effect {
            Effect::Publish { born, due, group } => {
                let slot = self.slab.insert(queue, place, payload, born);
                self.note_record(slot, place, payload);
                self.arrive(queue, slot, group.as_deref(), due, now);
            }
            Effect::Requeue { slot, tag, due, attempts } => {
                self.end_delivery(queue, tag);
                self.replace_record(slot, place, payload, moved);
                self.slab.get_mut(slot).attempts = attempts as u16;
                self.put_back(queue, slot, due, now);
            }
            Effect::Bury { slot, tag, number, attempts } => {
                self.end_delivery(queue, tag);
                self.replace_record(slot, place, payload, moved);
                self.slab.get_mut(slot).attempts = attempts as u16;
                self.release(queue, slot, now);
                self.bury(slot, queue, number);
            }
            Effect::Revive { slot, number, group } => {
                self.queue(queue).dead.remove(&number);
                self.replace_record(slot, place, payload, moved);
                self.slab.get_mut(slot).attempts = 0;
                self.arrive(queue, slot, group.as_deref(), Timestamp::default(), now);
            }
            Effect::Relocate { slot, from, stamp } => {
                let entry = self.slab.get(slot);
                let untouched = entry.place == from
                    && entry.stamp == stamp
                    && matches!(entry.life, Life::Waiting | Life::Dead);
                if untouched {
                    self.replace_record(slot, place, payload, moved);
                } else {
                    self.record_events(&[(place, Event::Done)]);
                }
                self.unpin(from.segment);
            }
        }
    }

    /// A copy of one of the segment's records is written, or never will be.
    fn unpin(&mut self, id: u32) {
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.pins -= 1;
            self.discard_if_garbage(id);
        }
    }

    /// A delivery is over; one whose receiver was lost only had its place among what is in flight.
    fn end_delivery(&mut self, queue: u16, tag: Option<u64>) {
        match tag {
            Some(tag) => drop(self.land(tag)),
            None => self.queue(queue).in_flight -= 1,
        }
    }

    /// A message that had a place reserved takes it.
    fn arrive(&mut self, queue: u16, slot: Slot, group: Option<&str>, due: Timestamp, now: Timestamp) {
        let queue = &mut self.queues[queue as usize];
        queue.reserved -= 1;
        queue.enlist(&mut self.slab, slot, group);
        queue.push(&mut self.slab, slot, due, now);
    }

    fn replace_record(&mut self, slot: Slot, place: Place, payload: u32, moved: &mut Vec<Moved>) {
        let entry = self.slab.get_mut(slot);
        moved.push(Moved { from: entry.place, payload: entry.payload, to: place });
        entry.place = place;
        entry.payload = payload;
        self.losses.remove(&slot);
        self.note_record(slot, place, payload);
    }

    /// A record could not be written: everything is as before, and a delivery is its receiver's again.
    fn come_to_nothing(&mut self, queue: u16, effect: Effect, now: Timestamp) {
        match effect {
            Effect::Publish { .. } => self.queue(queue).reserved -= 1,
            Effect::Requeue { slot, tag, .. } | Effect::Bury { slot, tag, .. } => match tag {
                Some(tag) => {
                    let lease = self.queue(queue).spec.lease;
                    self.set_lease(tag, Some(now + lease));
                }
                None => {
                    self.end_delivery(queue, None);
                    self.unburied.push((now + BURY_AGAIN, slot));
                }
            },
            Effect::Revive { slot, .. } => {
                self.queue(queue).reserved -= 1;
                self.slab.get_mut(slot).life = Life::Dead;
            }
            Effect::Relocate { from, .. } => self.unpin(from.segment),
        }
    }
}

/// The bytes that a record of this payload needs to be read again.
pub(super) fn readable_size(payload: u32) -> usize {
    HEADER + payload as usize
}
