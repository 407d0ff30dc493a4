//! Group commit: many requests, one write, one sync. Effects are applied only afterwards.

use super::{Engine, log::ClosedSegment, state::State};
use crate::{
    index::{MessageState, Slot},
    journal::Event,
    record::{HEADER, Kind, PayloadParts, Position, record_size},
};
use crawlway_broker::Timestamp;
use std::time::Duration;

/// Delay before a failed dead-letter write is retried.
const DEAD_LETTER_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Error of committing a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommitError {
    /// The record is certainly not in the log.
    NotWritten(String),
    /// The write failed halfway; the record may appear after a restart.
    Unknown(String),
}

/// Effect of a record, applied once it is durable.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A new message is pending.
    Publish { published_second: u32, due: Timestamp, group: Option<Box<str>> },
    /// A failed delivery is pending for its next attempt.
    Retry { slot: Slot, tag: Option<u64>, due: Timestamp, attempts: u32 },
    /// A delivery, or a message whose worker crashed (without a tag), is a dead letter.
    DeadLetter { slot: Slot, tag: Option<u64>, number: u64, attempts: u32 },
    /// A dead letter is pending again.
    Replay { slot: Slot, number: u64, group: Option<Box<str>> },
    /// A message has a new position, unless it changed in the meantime.
    Relocate { slot: Slot, from: Position, generation: u8 },
}

#[derive(Debug)]
pub(super) struct PendingRecord {
    pub(super) start: usize,
    pub(super) payload: usize,
    pub(super) queue: u16,
    pub(super) kind: Kind,
    effect: Effect,
    /// Bytes to place in one segment: this record and the later ones of the same message.
    pub(super) atomic_bytes: usize,
    /// Whether it belongs to the same message as the record before it.
    pub(super) is_continuation: bool,
}

type Reply = Box<dyn FnOnce(Vec<Result<(), CommitError>>) + Send>;

/// Records to commit, with their effects and a completion callback.
#[derive(Default)]
pub(crate) struct Request {
    pub(super) buffer: Vec<u8>,
    pub(super) records: Vec<PendingRecord>,
    reply: Option<Reply>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("records", &self.records).finish_non_exhaustive()
    }
}

impl Request {
    pub(crate) fn add(&mut self, queue: u16, kind: Kind, parts: &PayloadParts<'_>, effect: Effect) {
        let start = self.buffer.len();
        let payload = parts.append_record(&mut self.buffer);
        let atomic_bytes = record_size(payload);
        self.records.push(PendingRecord {
            start,
            payload,
            queue,
            kind,
            effect,
            atomic_bytes,
            is_continuation: false,
        });
    }

    /// Makes the last `records` records atomic: one message routed to several queues.
    pub(crate) fn make_atomic(&mut self, records: usize) {
        let from = self.records.len().saturating_sub(records);
        let mut atomic_bytes = 0;
        for (n, pending) in self.records[from..].iter_mut().enumerate().rev() {
            atomic_bytes += pending.atomic_bytes;
            pending.atomic_bytes = atomic_bytes;
            pending.is_continuation = n > 0;
        }
    }

    /// Whether it relocates this message. A reused slot is listed twice in its segment.
    pub(crate) fn relocates(&self, slot: Slot) -> bool {
        self.records
            .iter()
            .any(|pending| matches!(pending.effect, Effect::Relocate { slot: other, .. } if other == slot))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Sets the completion callback, which gets one result per record.
    pub(crate) fn on_reply(&mut self, reply: impl FnOnce(Vec<Result<(), CommitError>>) + Send + 'static) {
        self.reply = Some(Box::new(reply));
    }
}

/// A record that a copy supersedes.
struct Moved {
    from: Position,
    payload: u32,
    to: Position,
}

impl Engine {
    /// Writes and syncs all requests together, applies their effects, and calls back.
    pub(crate) fn commit(&self, mut requests: Vec<Request>, now: Timestamp) {
        let (results, closed) = self.write(&mut requests);
        let mut replies = Vec::with_capacity(requests.len());
        let mut state = self.state.lock();
        let mut results = results.into_iter();
        for request in requests {
            let mut outcomes = Vec::with_capacity(request.records.len());
            let mut moved = Vec::new();
            for (pending, result) in request.records.into_iter().zip(&mut results) {
                outcomes.push(match result {
                    Ok(position) => {
                        state.apply(pending, position, &mut moved, now);
                        Ok(())
                    }
                    Err(error) => {
                        state.revert(pending.queue, pending.effect, now);
                        Err(error)
                    }
                });
            }
            // The copies are durable and valid, so the originals must be marked.
            let events: Vec<_> =
                moved.iter().map(|moved| (moved.from, Event::Moved { to: moved.to })).collect();
            state.record_events(&events);
            for moved in moved {
                state.remove_live_record(moved.from, moved.payload);
            }
            replies.extend(request.reply.map(|reply| (reply, outcomes)));
        }
        state.seal(&closed);
        drop(state);
        for (reply, outcomes) in replies {
            reply(outcomes);
        }
        self.recycle();
    }
}

impl State {
    /// Seals segments; those without live records become garbage.
    pub(super) fn seal(&mut self, closed: &[ClosedSegment]) {
        self.record_events(&closed.iter().map(|segment| (segment.at, Event::Sealed)).collect::<Vec<_>>());
        for ClosedSegment { at, failed } in closed {
            if let Some(segment) = self.segments.get_mut(&at.segment) {
                segment.sealed = true;
                segment.failed = *failed;
            }
            self.discard_if_garbage(at.segment);
        }
    }

    /// Applies the effect of a durable record. Superseded records are collected in `moved`.
    fn apply(&mut self, pending: PendingRecord, position: Position, moved: &mut Vec<Moved>, now: Timestamp) {
        let PendingRecord { queue, effect, .. } = pending;
        let payload = pending.payload as u32;
        match effect {
            Effect::Publish { published_second, due, group } => {
                let slot = self.slab.insert(queue, position, payload, published_second);
                self.add_live_record(slot, position, payload);
                self.arrive(queue, slot, group.as_deref(), due, now);
                self.queue(queue).published.record(now);
            }
            Effect::Retry { slot, tag, due, attempts } => {
                self.finish_delivery(queue, tag, now);
                self.replace_record(slot, position, payload, moved);
                self.slab.get_mut(slot).attempts = attempts as u16;
                self.put_back(queue, slot, due, now);
            }
            Effect::DeadLetter { slot, tag, number, attempts } => {
                self.finish_delivery(queue, tag, now);
                self.replace_record(slot, position, payload, moved);
                self.slab.get_mut(slot).attempts = attempts as u16;
                self.suspects.remove(&slot);
                self.release(queue, slot, now);
                self.add_dead_letter(slot, queue, number);
            }
            Effect::Replay { slot, number, group } => {
                self.queue(queue).dead.remove(&number);
                self.replace_record(slot, position, payload, moved);
                self.slab.get_mut(slot).attempts = 0;
                self.arrive(queue, slot, group.as_deref(), Timestamp::default(), now);
            }
            Effect::Relocate { slot, from, generation } => {
                let entry = self.slab.get(slot);
                let untouched = entry.position == from
                    && entry.generation == generation
                    && matches!(entry.state, MessageState::Pending | MessageState::Dead);
                if untouched {
                    self.replace_record(slot, position, payload, moved);
                } else {
                    self.record_events(&[(position, Event::Done)]);
                }
                self.unpin(from.segment);
            }
        }
    }

    /// Releases a segment after a relocation was committed or failed.
    fn unpin(&mut self, id: u32) {
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.pins -= 1;
            self.discard_if_garbage(id);
        }
    }

    /// Ends a delivery. Without a tag, its worker is lost and only the count of unsettled deliveries remains.
    fn finish_delivery(&mut self, queue: u16, tag: Option<u64>, now: Timestamp) {
        match tag {
            Some(tag) => {
                self.end_delivery(tag);
                self.queue(queue).settled.record(now);
            }
            None => self.queue(queue).in_flight -= 1,
        }
    }

    /// Turns a reservation into a pending message.
    fn arrive(&mut self, queue: u16, slot: Slot, group: Option<&str>, due: Timestamp, now: Timestamp) {
        let queue = &mut self.queues[queue as usize];
        queue.reserved -= 1;
        queue.assign_group(&mut self.slab, slot, group);
        queue.push(&mut self.slab, slot, due, now);
    }

    fn replace_record(&mut self, slot: Slot, position: Position, payload: u32, moved: &mut Vec<Moved>) {
        let entry = self.slab.get_mut(slot);
        moved.push(Moved { from: entry.position, payload: entry.payload, to: position });
        entry.position = position;
        entry.payload = payload;
        if let Some(loss_history) = self.suspects.get_mut(&slot) {
            loss_history.since_record = None;
        }
        self.add_live_record(slot, position, payload);
    }

    /// Reverts a failed record: the message is as before, and its delivery gets a new lease.
    fn revert(&mut self, queue: u16, effect: Effect, now: Timestamp) {
        match effect {
            Effect::Publish { .. } => self.queue(queue).reserved -= 1,
            Effect::Retry { slot, tag, .. } | Effect::DeadLetter { slot, tag, .. } => match tag {
                Some(tag) => {
                    let lease = self.queue(queue).spec.lease;
                    self.set_lease(tag, Some(now + lease));
                }
                // It counts as unsettled until it is written.
                None => self.failed_dead_letters.push((now + DEAD_LETTER_RETRY_DELAY, slot)),
            },
            Effect::Replay { slot, .. } => {
                self.queue(queue).reserved -= 1;
                self.slab.get_mut(slot).state = MessageState::Dead;
            }
            Effect::Relocate { from, .. } => self.unpin(from.segment),
        }
    }
}

/// Number of bytes to read for a record with this payload, without padding.
pub(super) fn readable_size(payload: u32) -> usize {
    HEADER + payload as usize
}
