//! Receiving: takes ready messages and reads them from the log.

use super::{
    Engine,
    commit::readable_size,
    state::{LossHistory, State, decode},
};
use crate::{
    disk::DiskFile,
    index::{MessageState, Slot},
    journal::Event,
    record::{Position, StoredMessage},
};
use bytes::Bytes;
use crawlway_broker::{BrokerError, Delivery, Failure, QueueName, Receipt, Timestamp, suspects::Slots};
use std::{io, sync::Arc};
use tokio::sync::Notify;

/// Maximum size of a read that joins adjacent records.
const MAX_READ_SIZE: usize = 1 << 20;

/// Maximum size of a received batch; the message that exceeds it is the last one.
const MAX_BATCH_SIZE: u64 = 32 << 20;

/// Received deliveries.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) deliveries: Vec<Delivery>,
    /// Time of the next due message or lease end.
    pub(crate) wake_at: Option<Timestamp>,
}

/// A message taken from the queue, to be read from the log.
struct TakenMessage {
    tag: u64,
    slot: Slot,
    position: Position,
    payload: u32,
    attempts: u16,
    loss_history: LossHistory,
    file: Arc<dyn DiskFile>,
    salt: u32,
}

impl Engine {
    /// Notification of new messages in a queue.
    pub(crate) fn arrivals(&self, name: &QueueName) -> Result<Arc<Notify>, BrokerError> {
        let state = self.state.lock();
        let number = state.number(name)?;
        Ok(state.queues[number as usize].arrivals.clone())
    }

    /// Receives up to `max` ready messages.
    pub(crate) fn receive(
        &self,
        name: &QueueName,
        max: usize,
        now: Timestamp,
    ) -> Result<Received, BrokerError> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        state.expire_leases(now);
        state.promote(number, now);
        let (taken, lease_until) = state.take(number, max, now).map_err(|error| self.unavailable(&error))?;
        let due = state.queues[number as usize].next_due();
        let wake_at = due.into_iter().chain(state.next_lease_end()).min();
        let epoch = state.epoch;
        drop(state);

        let mut deliveries = Vec::with_capacity(taken.len());
        let mut failed = None;
        for (taken, stored) in read_all(&taken) {
            let receipt = Receipt { queue: name.clone(), epoch, tag: taken.tag };
            // Retried on its own before it is given up.
            match stored.or_else(|_| read_one(taken)) {
                Ok(stored) => deliveries.push(delivery(receipt, taken, stored, lease_until)),
                Err(Unreadable::Damaged(bytes)) => self.quarantine(taken, &bytes, number, now),
                Err(Unreadable::Failed(error)) => {
                    self.return_message(taken, number, now);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if deliveries.is_empty() => Err(self.unavailable(&error)),
            _ => Ok(Received { deliveries, wake_at }),
        }
    }

    /// Returns a message to the queue after a failed read, uncounted.
    fn return_message(&self, taken: &TakenMessage, queue: u16, now: Timestamp) {
        let mut state = self.state.lock();
        if state.end_delivery(taken.tag).is_some() {
            state.record_events(&[(taken.position, Event::Deferred { until: now })]);
            state.put_back(queue, taken.slot, Timestamp::default(), now);
        }
    }

    /// Removes a message whose record is damaged, and saves the bytes.
    fn quarantine(&self, taken: &TakenMessage, bytes: &[u8], queue: u16, now: Timestamp) {
        let mut state = self.state.lock();
        // After its delivery ended, the record may be gone and its file reused.
        if state.end_delivery(taken.tag).is_none() {
            return;
        }
        let damage = crate::recover::Damage::save(&*self.disk, taken.position, bytes);
        tracing::error!(%damage, queue = %state.queues[queue as usize].spec.name, "a message is unreadable and was quarantined");
        state.release(queue, taken.slot, now);
        if damage.saved_as.is_some() {
            state.record_events(&[(taken.position, Event::Done)]);
            state.remove_message(taken.slot);
        } else {
            // The record is the only copy of the bytes: kept until the next start, out of the queue.
            state.slab.get_mut(taken.slot).state = MessageState::Rewriting;
        }
    }
}

impl State {
    fn take(
        &mut self,
        number: u16,
        max: usize,
        now: Timestamp,
    ) -> io::Result<(Vec<TakenMessage>, Timestamp)> {
        let queue = &mut self.queues[number as usize];
        let lease_until = now + queue.spec.lease;
        if queue.paused || !queue.has_ready() {
            return Ok((Vec::new(), lease_until));
        }
        let allowance = queue.spec.prefetch.saturating_sub(queue.in_flight) as usize;
        let mut slots = Vec::new();
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut places = Slots::new(max.min(allowance));
        while places.has_free()
            && bytes < MAX_BATCH_SIZE
            && let Some(slot) = queue.pop(&mut self.slab)
        {
            let losses =
                self.suspects.get(&slot).map_or(0, |loss_history| u32::from(loss_history.losses.all));
            if !places.take(losses) {
                queue.put_back(&mut self.slab, slot, Timestamp::default(), now);
                break;
            }
            bytes += u64::from(self.slab.get(slot).payload);
            slots.push(slot);
            events.push((self.slab.get(slot).position, Event::Delivered));
        }
        if let Err(error) = self.write_events(&events) {
            for slot in slots.into_iter().rev() {
                self.put_back(number, slot, Timestamp::default(), now);
            }
            return Err(error);
        }
        let mut taken = Vec::with_capacity(slots.len());
        for slot in slots {
            let tag = self.begin_delivery(number, slot, lease_until);
            let entry = self.slab.get(slot);
            let Some(segment) = self.segments.get(&entry.position.segment) else { continue };
            taken.push(TakenMessage {
                tag,
                slot,
                position: entry.position,
                payload: entry.payload,
                attempts: entry.attempts,
                loss_history: self.suspects.get(&slot).copied().unwrap_or_default(),
                file: segment.file.clone(),
                salt: segment.salt,
            });
        }
        Ok((taken, lease_until))
    }
}

/// Error of reading a record.
enum Unreadable {
    /// The bytes were read, but are no valid record.
    Damaged(Bytes),
    Failed(io::Error),
}

/// Reads all records, joining adjacent ones.
fn read_all(taken: &[TakenMessage]) -> Vec<(&TakenMessage, Result<StoredMessage, Unreadable>)> {
    let mut results = Vec::with_capacity(taken.len());
    let mut rest = taken;
    while let Some(first) = rest.first() {
        let start = first.position.offset as usize;
        let mut end = start + readable_size(first.payload);
        let mut count = 1;
        for next in &rest[1..] {
            let at = next.position.offset as usize;
            let near = next.position.segment == first.position.segment && at >= end && at < end + 4096;
            let next_end = at + readable_size(next.payload);
            if !near || next_end - start > MAX_READ_SIZE {
                break;
            }
            end = next_end;
            count += 1;
        }
        let bytes = read_bytes(first, start, end - start);
        for taken in &rest[..count] {
            let stored = match &bytes {
                Ok(bytes) => {
                    let from = (taken.position.offset as usize - start).min(bytes.len());
                    let to = (from + readable_size(taken.payload)).min(bytes.len());
                    let record = bytes.slice(from..to);
                    decode(&record, taken.salt).ok_or(Unreadable::Damaged(record))
                }
                Err(error) => Err(Unreadable::Failed(io::Error::new(error.kind(), error.to_string()))),
            };
            results.push((taken, stored));
        }
        rest = &rest[count..];
    }
    results
}

fn read_one(taken: &TakenMessage) -> Result<StoredMessage, Unreadable> {
    let bytes = read_bytes(taken, taken.position.offset as usize, readable_size(taken.payload));
    let bytes = bytes.map_err(Unreadable::Failed)?;
    decode(&bytes, taken.salt).ok_or(Unreadable::Damaged(bytes))
}

fn read_bytes(taken: &TakenMessage, start: usize, length: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; length];
    let read = taken.file.read_at(&mut bytes, start as u64)?;
    bytes.truncate(read);
    Ok(bytes.into())
}

fn delivery(
    receipt: Receipt,
    taken: &TakenMessage,
    mut stored: StoredMessage,
    lease_until: Timestamp,
) -> Delivery {
    let history = stored.history.take();
    let replays = history.as_ref().map_or(0, |history| history.replays);
    let lost = taken.loss_history.since_record;
    let lost = lost.map(|(_, last)| Failure { error: super::copies::LOST.to_owned(), at: last });
    Delivery {
        receipt,
        message: stored.into_message(),
        attempt: u32::from(taken.attempts) + 1,
        losses: u32::from(taken.loss_history.losses.all),
        last_error: lost.or(history.and_then(|history| history.last_error)),
        replays,
        lease_until,
    }
}
