//! In-memory state of the engine, and the operations that keep it consistent with the disk.

use super::Request;
use crate::{
    catalog::Catalog,
    disk::{Disk, is_full},
    index::{MessageState, NONE, Queue, Slab, Slot},
    journal::Event,
    record::{HEADER, Losses, Position, RecordHeader, StoredMessage, record_size},
    reserve::Reserve,
    segment::Segment,
};
use bytes::Bytes;
use crawlway_broker::{BrokerError, QueueName, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::Arc,
    time::Duration,
};

/// An unsettled delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightDelivery {
    pub(crate) slot: Slot,
    pub(crate) queue: u16,
    pub(crate) lease_until: Timestamp,
    /// Whether its verdict is being committed.
    pub(crate) settling: bool,
}

/// Lost workers of a suspect message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LossHistory {
    pub(crate) losses: Losses,
    /// Times of the first and last loss since its record was written.
    pub(crate) since_record: Option<(Timestamp, Timestamp)>,
}

/// State of the engine.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) catalog: Catalog,
    pub(crate) numbers: HashMap<QueueName, u16>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) segments: BTreeMap<u32, Segment>,
    pub(crate) slab: Slab,
    pub(crate) suspects: HashMap<Slot, LossHistory>,
    pub(crate) deliveries: HashMap<u64, InFlightDelivery>,
    leases: BTreeSet<(Timestamp, u64)>,
    /// Random number of this session. Receipts of other sessions are fenced.
    pub(crate) epoch: u64,
    next_tag: u64,
    pub(crate) next_dead_letter: u64,
    /// Journal events that could not be written yet. They are written before all others.
    unwritten_events: Vec<(Position, Event)>,
    /// Dead letters to commit, of messages that crashed their workers too often.
    pub(crate) dead_letter_requests: Vec<Request>,
    /// Messages whose dead letter could not be written, with the time of the next attempt.
    pub(crate) failed_dead_letters: Vec<(Timestamp, Slot)>,
    /// Segments without live records.
    garbage: Vec<(u32, Segment)>,
    pub(crate) reserve: Reserve,
    /// Time of the last lease check, and the time without one that counts as a suspension.
    pub(crate) last_lease_check: Timestamp,
    pub(crate) suspension_threshold: Option<Duration>,
    pub(crate) closed: bool,
}

impl State {
    pub(crate) fn new(disk: Arc<dyn Disk>, catalog: Catalog, reserve: Reserve) -> Self {
        let mut state = Self {
            disk,
            numbers: HashMap::new(),
            queues: Vec::new(),
            segments: BTreeMap::new(),
            slab: Slab::default(),
            suspects: HashMap::new(),
            deliveries: HashMap::new(),
            leases: BTreeSet::new(),
            epoch: super::random_u64(),
            next_tag: 0,
            next_dead_letter: 1,
            unwritten_events: Vec::new(),
            dead_letter_requests: Vec::new(),
            failed_dead_letters: Vec::new(),
            garbage: Vec::new(),
            reserve,
            last_lease_check: Timestamp::default(),
            suspension_threshold: None,
            closed: false,
            catalog,
        };
        for listed in &state.catalog.queues {
            state.numbers.insert(listed.spec.name.clone(), listed.number);
            state.queues.push(Queue::new(listed.spec.clone(), listed.paused));
        }
        state
    }

    pub(crate) fn check_open(&self) -> Result<(), BrokerError> {
        if self.closed { Err(BrokerError::Closed) } else { Ok(()) }
    }

    /// Number of a declared queue.
    pub(crate) fn number(&self, name: &QueueName) -> Result<u16, BrokerError> {
        self.check_open()?;
        self.numbers
            .get(name)
            .copied()
            .ok_or_else(|| BrokerError::UnknownQueue { queue: name.clone(), known: self.similar_names(name) })
    }

    /// Similar names of declared queues, for the error message.
    pub(crate) fn similar_names(&self, missed: &QueueName) -> Vec<QueueName> {
        missed.nearest(self.numbers.keys())
    }

    pub(crate) fn queue(&mut self, number: u16) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    pub(crate) fn promote(&mut self, number: u16, now: Timestamp) {
        self.queues[number as usize].promote(&mut self.slab, now);
    }

    /// Returns a message in flight to its queue.
    pub(crate) fn put_back(&mut self, number: u16, slot: Slot, due: Timestamp, now: Timestamp) {
        self.queues[number as usize].put_back(&mut self.slab, slot, due, now);
    }

    /// Due time of a pending message; zero if it is ready or dead.
    pub(crate) fn due_of(&self, slot: Slot) -> Timestamp {
        let queue = self.slab.get(slot).queue;
        self.queues[queue as usize].due_of(slot).unwrap_or_default()
    }

    /// Ends the delivery of a message, which makes its group ready again.
    pub(crate) fn release(&mut self, number: u16, slot: Slot, now: Timestamp) {
        self.queues[number as usize].release(&self.slab, slot, now);
    }

    /// Starts a delivery and returns its tag.
    pub(crate) fn begin_delivery(&mut self, queue: u16, slot: Slot, lease_until: Timestamp) -> u64 {
        self.next_tag += 1;
        let tag = self.next_tag;
        let entry = self.slab.get_mut(slot);
        entry.state = MessageState::InFlight;
        entry.generation = entry.generation.wrapping_add(1);
        self.queue(queue).in_flight += 1;
        self.deliveries.insert(tag, InFlightDelivery { slot, queue, lease_until, settling: false });
        self.leases.insert((lease_until, tag));
        tag
    }

    /// Ends a delivery.
    pub(crate) fn end_delivery(&mut self, tag: u64) -> Option<InFlightDelivery> {
        let delivery = self.deliveries.remove(&tag)?;
        self.leases.remove(&(delivery.lease_until, tag));
        self.queue(delivery.queue).in_flight -= 1;
        Some(delivery)
    }

    /// Sets or, while a delivery is being settled, removes its lease.
    pub(crate) fn set_lease(&mut self, tag: u64, lease_until: Option<Timestamp>) {
        if let Some(delivery) = self.deliveries.get_mut(&tag) {
            self.leases.remove(&(delivery.lease_until, tag));
            delivery.settling = lease_until.is_none();
            if let Some(lease_until) = lease_until {
                delivery.lease_until = lease_until;
                self.leases.insert((lease_until, tag));
            }
        }
    }

    /// Extends all leases by the time for which the process was suspended.
    pub(crate) fn extend_suspended_leases(&mut self, now: Timestamp) {
        let gap = now.since(std::mem::replace(&mut self.last_lease_check, now));
        if self.suspension_threshold.is_none_or(|limit| gap <= limit) {
            return;
        }
        tracing::warn!(
            for_ms = gap.as_millis(),
            "the process was suspended; leases are extended by that time"
        );
        let held: Vec<u64> = self.leases.iter().map(|(_, tag)| *tag).collect();
        for tag in held {
            let until = self.deliveries.get(&tag).map(|delivery| delivery.lease_until + gap);
            self.set_lease(tag, until);
        }
    }

    /// End of the first lease to expire.
    pub(crate) fn next_lease_end(&self) -> Option<Timestamp> {
        self.leases.first().map(|(time, _)| *time)
    }

    pub(crate) fn first_expired(&self, now: Timestamp) -> Option<u64> {
        self.leases.first().filter(|(time, _)| *time <= now).map(|(_, tag)| *tag)
    }

    /// Adds a recovered message to its queue.
    pub(crate) fn push_recovered(&mut self, slot: Slot, due: Timestamp, now: Timestamp) {
        let queue = self.slab.get(slot).queue;
        self.queues[queue as usize].push(&mut self.slab, slot, due, now);
    }

    /// Adds a message to the dead letters of its queue.
    pub(crate) fn add_dead_letter(&mut self, slot: Slot, queue: u16, number: u64) {
        let entry = self.slab.get_mut(slot);
        entry.state = MessageState::Dead;
        entry.group = NONE;
        self.queue(queue).dead.insert(number, slot);
    }

    /// Removes a message from the dead letters of its queue.
    pub(crate) fn remove_dead_letter(&mut self, slot: Slot) {
        let queue = self.slab.get(slot).queue;
        self.queue(queue).dead.retain(|_, dead| *dead != slot);
    }

    /// Writes events to the journals of their segments. After an error, some of them may be written.
    pub(crate) fn write_events(&mut self, events: &[(Position, Event)]) -> io::Result<()> {
        self.write_unwritten_events()?;
        self.write_by_segment(events).1
    }

    /// Writes events that already took effect. Those that fail are kept for later.
    pub(crate) fn record_events(&mut self, events: &[(Position, Event)]) {
        let (written, result) = match self.write_unwritten_events() {
            Ok(()) => self.write_by_segment(events),
            Err(error) => (0, Err(error)),
        };
        if let Err(error) = result {
            tracing::warn!(%error, "cannot write to the journal; retried with the next settle");
            self.unwritten_events.extend_from_slice(&events[written..]);
        }
    }

    /// Writes the kept events.
    fn write_unwritten_events(&mut self) -> io::Result<()> {
        if self.unwritten_events.is_empty() {
            return Ok(());
        }
        let mut unwritten_events = std::mem::take(&mut self.unwritten_events);
        let (written, result) = self.write_by_segment(&unwritten_events);
        unwritten_events.drain(..written);
        self.unwritten_events = unwritten_events;
        result
    }

    /// Writes events in order; returns how many were written.
    fn write_by_segment(&mut self, events: &[(Position, Event)]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while let Some((first, _)) = events.get(written) {
            let same = |(position, _): &&(Position, Event)| position.segment == first.segment;
            let part = &events[written..written + events[written..].iter().take_while(same).count()];
            // A removed segment has no live records, so its events are obsolete.
            if let Some(segment) = self.segments.get_mut(&first.segment) {
                let slots = || part.iter().map(|(position, event)| (position.offset, *event));
                let mut result = segment.journal.append(slots());
                if result.as_ref().is_err_and(is_full) && self.reserve.release(&*self.disk) {
                    result = segment.journal.append(slots());
                }
                if result.is_err() {
                    return (written, result);
                }
            }
            written += part.len();
        }
        (written, Ok(()))
    }

    /// Takes the garbage segments. None while events are kept back, since their journals may decide which copies are
    /// valid.
    pub(crate) fn take_garbage(&mut self) -> Vec<(u32, Segment)> {
        if self.unwritten_events.is_empty() { std::mem::take(&mut self.garbage) } else { Vec::new() }
    }

    /// Counts a live record.
    pub(crate) fn add_live_record(&mut self, slot: Slot, position: Position, payload: u32) {
        if let Some(segment) = self.segments.get_mut(&position.segment) {
            segment.live += 1;
            segment.live_bytes += record_size(payload as usize) as u64;
            segment.slots.push(slot);
        }
    }

    /// Uncounts a live record; its segment may become garbage.
    pub(crate) fn remove_live_record(&mut self, position: Position, payload: u32) {
        if let Some(segment) = self.segments.get_mut(&position.segment) {
            segment.live -= 1;
            segment.live_bytes -= record_size(payload as usize) as u64;
            self.discard_if_garbage(position.segment);
        }
    }

    /// Moves a sealed segment without live records to the garbage.
    pub(crate) fn discard_if_garbage(&mut self, id: u32) {
        if self
            .segments
            .get(&id)
            .is_some_and(|segment| segment.sealed && segment.live == 0 && segment.pins == 0)
            && let Some(segment) = self.segments.remove(&id)
        {
            self.garbage.push((id, segment));
        }
    }

    /// Removes a message. Its end must be in the journal already.
    pub(crate) fn remove_message(&mut self, slot: Slot) {
        let entry = *self.slab.get(slot);
        self.suspects.remove(&slot);
        self.slab.remove(slot);
        self.remove_live_record(entry.position, entry.payload);
    }

    /// Reads the record of a message.
    pub(crate) fn read(&self, slot: Slot) -> io::Result<StoredMessage> {
        let entry = self.slab.get(slot);
        let segment = self
            .segments
            .get(&entry.position.segment)
            .ok_or_else(|| io::Error::other("the segment of a waiting message is gone"))?;
        let mut bytes = vec![0; HEADER + entry.payload as usize];
        let read = segment.file.read_at(&mut bytes, u64::from(entry.position.offset))?;
        bytes.truncate(read);
        decode(&bytes.into(), segment.salt).ok_or_else(|| damaged(entry.position))
    }
}

/// Verifies and decodes a record.
pub(crate) fn decode(record: &Bytes, salt: u32) -> Option<StoredMessage> {
    let header = RecordHeader::read(record, salt)?;
    let payload = record.len().checked_sub(HEADER).filter(|have| *have >= header.payload as usize)?;
    let payload = record.slice(HEADER..HEADER + payload.min(header.payload as usize));
    header.matches(&payload, salt).then(|| StoredMessage::read(&payload))?
}

pub(crate) fn damaged(position: Position) -> io::Error {
    let Position { segment, offset } = position;
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the record at {offset} of segment {segment} is damaged"),
    )
}
