//! Receiving: taking what is ready, and reading it from the log.

use super::{
    Engine,
    commit::readable_size,
    state::{State, Suspicion, decode},
};
use crate::{
    disk::DiskFile,
    index::{Life, Slot},
    journal::Event,
    record::{Place, Stored},
};
use bytes::Bytes;
use crawlway_broker::{
    BrokerError, Delivery, Failure, Message, QueueName, Receipt, Timestamp, suspects::Places,
};
use std::{io, sync::Arc};
use tokio::sync::Notify;

/// Reads of neighbouring records are joined up to this many bytes.
const LARGEST_READ: usize = 1 << 20;

/// A receive takes no further message once it has so many bytes.
const ENOUGH_BYTES: u64 = 32 << 20;

/// What a receive found, and when it is worth looking again.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) deliveries: Vec<Delivery>,
    /// When a message falls due or a lease ends next.
    pub(crate) look_again: Option<Timestamp>,
}

/// A message that was taken and is about to be read.
struct Taken {
    tag: u64,
    slot: Slot,
    place: Place,
    payload: u32,
    attempts: u16,
    suspicion: Suspicion,
    file: Arc<dyn DiskFile>,
    salt: u32,
}

impl Engine {
    /// What is woken when something may have arrived in a queue.
    pub(crate) fn arrivals(&self, name: &QueueName) -> Result<Arc<Notify>, BrokerError> {
        let state = self.state.lock();
        let number = state.number(name)?;
        Ok(state.queues[number as usize].arrivals.clone())
    }

    /// Takes up to `max` ready messages of the queue.
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
        let look_again = due.into_iter().chain(state.next_lease_end()).min();
        let epoch = state.epoch;
        drop(state);

        let mut deliveries = Vec::with_capacity(taken.len());
        let mut failed = None;
        for (taken, stored) in read_all(&taken) {
            let receipt = Receipt { queue: name.clone(), epoch, tag: taken.tag };
            // Once more, on its own, before anybody gives up on it.
            match stored.or_else(|_| read_one(taken)) {
                Ok(stored) => deliveries.push(delivery(receipt, taken, stored, lease_until)),
                Err(Unreadable::Damaged(bytes)) => self.set_aside(taken, &bytes, number, now),
                Err(Unreadable::Failed(error)) => {
                    self.hand_back(taken, number, now);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if deliveries.is_empty() => Err(self.unavailable(&error)),
            _ => Ok(Received { deliveries, look_again }),
        }
    }

    /// The disk failed, which is not the message's fault: it waits as before and nothing is counted.
    fn hand_back(&self, taken: &Taken, queue: u16, now: Timestamp) {
        let mut state = self.state.lock();
        if state.land(taken.tag).is_some() {
            state.record_events(&[(taken.place, Event::Deferred { until: now })]);
            state.put_back(queue, taken.slot, Timestamp::default(), now);
        }
    }

    /// A record is damaged: takes its message out of the queue, and says so.
    fn set_aside(&self, taken: &Taken, bytes: &[u8], queue: u16, now: Timestamp) {
        let mut state = self.state.lock();
        // If the delivery is over, so may be the record: its file could have been used again since.
        if state.land(taken.tag).is_none() {
            return;
        }
        let damage = crate::recover::Damage::save(&*self.disk, taken.place, bytes);
        tracing::error!(%damage, queue = %state.queues[queue as usize].spec.name, "a message is unreadable and was set aside");
        state.release(queue, taken.slot, now);
        if damage.saved_as.is_some() {
            state.record_events(&[(taken.place, Event::Done)]);
            state.erase(taken.slot);
        } else {
            // Its record is all there is of it: kept, out of everybody's way, until the next start.
            state.slab.get_mut(taken.slot).life = Life::Leaving;
        }
    }
}

impl State {
    fn take(&mut self, number: u16, max: usize, now: Timestamp) -> io::Result<(Vec<Taken>, Timestamp)> {
        let queue = &mut self.queues[number as usize];
        let lease_until = now + queue.spec.lease;
        if queue.paused || !queue.has_ready() {
            return Ok((Vec::new(), lease_until));
        }
        let allowance = queue.spec.prefetch.saturating_sub(queue.in_flight) as usize;
        let mut slots = Vec::new();
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut places = Places::new(max.min(allowance));
        while places.are_left()
            && bytes < ENOUGH_BYTES
            && let Some(slot) = queue.pop(&mut self.slab)
        {
            let losses = self.suspects.get(&slot).map_or(0, |suspicion| u32::from(suspicion.losses.all));
            if !places.take(losses) {
                queue.put_back(&mut self.slab, slot, Timestamp::default(), now);
                break;
            }
            bytes += u64::from(self.slab.get(slot).payload);
            slots.push(slot);
            events.push((self.slab.get(slot).place, Event::Delivered));
        }
        if let Err(error) = self.write_events(&events) {
            for slot in slots.into_iter().rev() {
                self.put_back(number, slot, Timestamp::default(), now);
            }
            return Err(error);
        }
        let mut taken = Vec::with_capacity(slots.len());
        for slot in slots {
            let tag = self.take_off(number, slot, lease_until);
            let entry = self.slab.get(slot);
            let Some(segment) = self.segments.get(&entry.place.segment) else { continue };
            taken.push(Taken {
                tag,
                slot,
                place: entry.place,
                payload: entry.payload,
                attempts: entry.attempts,
                suspicion: self.suspects.get(&slot).copied().unwrap_or_default(),
                file: segment.file.clone(),
                salt: segment.salt,
            });
        }
        Ok((taken, lease_until))
    }
}

/// Why a record could not be read.
enum Unreadable {
    /// These bytes were, and they are not the record.
    Damaged(Bytes),
    Failed(io::Error),
}

/// Reads all records, neighbours in one go.
fn read_all(taken: &[Taken]) -> Vec<(&Taken, Result<Stored, Unreadable>)> {
    let mut results = Vec::with_capacity(taken.len());
    let mut rest = taken;
    while let Some(first) = rest.first() {
        let start = first.place.offset as usize;
        let mut end = start + readable_size(first.payload);
        let mut count = 1;
        for next in &rest[1..] {
            let at = next.place.offset as usize;
            let near = next.place.segment == first.place.segment && at >= end && at < end + 4096;
            let next_end = at + readable_size(next.payload);
            if !near || next_end - start > LARGEST_READ {
                break;
            }
            end = next_end;
            count += 1;
        }
        let bytes = read_bytes(first, start, end - start);
        for taken in &rest[..count] {
            let stored = match &bytes {
                Ok(bytes) => {
                    let from = (taken.place.offset as usize - start).min(bytes.len());
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

fn read_one(taken: &Taken) -> Result<Stored, Unreadable> {
    let bytes = read_bytes(taken, taken.place.offset as usize, readable_size(taken.payload));
    let bytes = bytes.map_err(Unreadable::Failed)?;
    decode(&bytes, taken.salt).ok_or(Unreadable::Damaged(bytes))
}

fn read_bytes(taken: &Taken, start: usize, length: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; length];
    let read = taken.file.read_at(&mut bytes, start as u64)?;
    bytes.truncate(read);
    Ok(bytes.into())
}

fn delivery(receipt: Receipt, taken: &Taken, stored: Stored, lease_until: Timestamp) -> Delivery {
    let carried = stored.carried;
    let replays = carried.as_ref().map_or(0, |carried| carried.replays);
    let lost = taken.suspicion.since_record;
    let lost = lost.map(|(_, last)| Failure { error: super::copies::LOST.to_owned(), at: last });
    Delivery {
        receipt,
        message: Message {
            id: stored.id,
            key: stored.key,
            group: stored.group,
            headers: stored.headers,
            body: stored.body,
            published_at: stored.published_at,
        },
        attempt: u32::from(taken.attempts) + 1,
        losses: u32::from(taken.suspicion.losses.all),
        last_error: lost.or(carried.and_then(|carried| carried.last_error)),
        replays,
        lease_until,
    }
}
