//! Group commit: many requests, one write, one sync, and only then does anything come true.

use super::{Engine, log::Ended, state::State};
use crate::{
    index::{Life, Slot},
    journal::Event,
    record::{HEADER, Kind, Parts, Place, record_size},
};
use crawlway_broker::Timestamp;
use std::time::Duration;

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
pub(super) struct Mark {
    pub(super) start: usize,
    pub(super) payload: usize,
    pub(super) queue: u16,
    pub(super) kind: Kind,
    effect: Effect,
    /// Bytes that must go to one segment: its own, and those of the copies for other queues behind it.
    pub(super) together: usize,
    /// It is such a copy.
    pub(super) continues: bool,
}

type Reply = Box<dyn FnOnce(Vec<Result<(), CommitError>>) + Send>;

/// Records to write, what comes of each, and whom to tell.
#[derive(Default)]
pub(crate) struct Request {
    pub(super) buffer: Vec<u8>,
    pub(super) marks: Vec<Mark>,
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
        let together = record_size(payload);
        self.marks.push(Mark { start, payload, queue, kind, effect, together, continues: false });
    }

    /// Has the last so many records stand or fall together: one message for several queues.
    pub(crate) fn tie(&mut self, records: usize) {
        let from = self.marks.len().saturating_sub(records);
        let mut together = 0;
        for (n, mark) in self.marks[from..].iter_mut().enumerate().rev() {
            together += mark.together;
            mark.together = together;
            mark.continues = n > 0;
        }
    }

    /// Whether a copy of this message is in it: a slot that was used twice is listed twice.
    pub(crate) fn has_relocation_of(&self, slot: Slot) -> bool {
        self.marks
            .iter()
            .any(|mark| matches!(mark.effect, Effect::Relocate { slot: other, .. } if other == slot))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Says whom to tell, with one result per record.
    pub(crate) fn on_reply(&mut self, reply: impl FnOnce(Vec<Result<(), CommitError>>) + Send + 'static) {
        self.reply = Some(Box::new(reply));
    }
}

/// A record that a copy has replaced.
struct Moved {
    from: Place,
    payload: u32,
    to: Place,
}

impl Engine {
    /// Writes and syncs all requests together, lets what they bring come true, and replies.
    pub(crate) fn commit(&self, mut requests: Vec<Request>, now: Timestamp) {
        let (placed, ended) = self.write(&mut requests);
        let mut replies = Vec::with_capacity(requests.len());
        let mut state = self.state.lock();
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
        drop(state);
        for (reply, outcomes) in replies {
            reply(outcomes);
        }
        self.recycle();
    }
}

impl State {
    /// Marks segments as finished; those that nobody needs are garbage now.
    pub(super) fn seal(&mut self, ended: &[Ended]) {
        self.record_events(&ended.iter().map(|ended| (ended.at, Event::Sealed)).collect::<Vec<_>>());
        for Ended { at, failed } in ended {
            if let Some(segment) = self.segments.get_mut(&at.segment) {
                segment.sealed = true;
                segment.failed = *failed;
            }
            self.discard_if_garbage(at.segment);
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
                self.queue(queue).published.note(now);
            }
            Effect::Requeue { slot, tag, due, attempts } => {
                self.end_delivery(queue, tag, now);
                self.replace_record(slot, place, payload, moved);
                self.slab.get_mut(slot).attempts = attempts as u16;
                self.put_back(queue, slot, due, now);
            }
            Effect::Bury { slot, tag, number, attempts } => {
                self.end_delivery(queue, tag, now);
                self.replace_record(slot, place, payload, moved);
                self.slab.get_mut(slot).attempts = attempts as u16;
                self.suspects.remove(&slot);
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
    fn end_delivery(&mut self, queue: u16, tag: Option<u64>, now: Timestamp) {
        match tag {
            Some(tag) => {
                self.land(tag);
                self.queue(queue).settled.note(now);
            }
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
        if let Some(suspicion) = self.suspects.get_mut(&slot) {
            suspicion.since_record = None;
        }
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
                // It stays among what is in flight until it can be written.
                None => self.unburied.push((now + BURY_AGAIN, slot)),
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
