//! Everything the engine knows, and the few moves that keep it consistent with the disk.

use super::Request;
use crate::{
    catalog::Catalog,
    disk::{Disk, is_full},
    index::{Life, NONE, Queue, Slab, Slot},
    journal::Event,
    record::{HEADER, Head, Losses, Place, Stored, record_size},
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

/// A delivery that is not settled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) slot: Slot,
    pub(crate) queue: u16,
    pub(crate) lease_until: Timestamp,
    /// Its verdict is being written.
    pub(crate) settling: bool,
}

/// What makes a message suspect.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Suspicion {
    pub(crate) losses: Losses,
    /// When its first and its last receiver were lost since its record was written.
    pub(crate) since_record: Option<(Timestamp, Timestamp)>,
}

/// Everything the engine knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) catalog: Catalog,
    pub(crate) numbers: HashMap<QueueName, u16>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) segments: BTreeMap<u32, Segment>,
    pub(crate) slab: Slab,
    pub(crate) suspects: HashMap<Slot, Suspicion>,
    pub(crate) flights: HashMap<u64, Flight>,
    leases: BTreeSet<(Timestamp, u64)>,
    /// Which opening of the directory this is; receipts of another are fenced.
    pub(crate) epoch: u64,
    next_tag: u64,
    pub(crate) next_death: u64,
    /// Events that could not be written yet. Nothing else is, before these are.
    owed: Vec<(Place, Event)>,
    /// Messages without attempts left, to be committed as dead letters.
    pub(crate) burials: Vec<Request>,
    /// Messages without attempts left that could not be written as dead letters, and when to try again.
    pub(crate) unburied: Vec<(Timestamp, Slot)>,
    /// Segments that nobody needs any more.
    garbage: Vec<(u32, Segment)>,
    reserve: Reserve,
    /// When leases were last looked at, and after how long without a look the process was suspended.
    pub(crate) looked: Timestamp,
    pub(crate) frozen_after: Option<Duration>,
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
            flights: HashMap::new(),
            leases: BTreeSet::new(),
            epoch: super::random_number(),
            next_tag: 0,
            next_death: 1,
            owed: Vec::new(),
            burials: Vec::new(),
            unburied: Vec::new(),
            garbage: Vec::new(),
            reserve,
            looked: Timestamp::default(),
            frozen_after: None,
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

    /// The number of a queue that must exist.
    pub(crate) fn number(&self, name: &QueueName) -> Result<u16, BrokerError> {
        self.check_open()?;
        self.numbers
            .get(name)
            .copied()
            .ok_or_else(|| BrokerError::UnknownQueue { queue: name.clone(), known: self.known(name) })
    }

    /// Some queues that exist, for the error message of one that does not.
    pub(crate) fn known(&self, missed: &QueueName) -> Vec<QueueName> {
        missed.nearest(self.numbers.keys())
    }

    pub(crate) fn queue(&mut self, number: u16) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    pub(crate) fn promote(&mut self, number: u16, now: Timestamp) {
        self.queues[number as usize].promote(&mut self.slab, now);
    }

    /// Puts a message that was out back in line.
    pub(crate) fn put_back(&mut self, number: u16, slot: Slot, due: Timestamp, now: Timestamp) {
        self.queues[number as usize].put_back(&mut self.slab, slot, due, now);
    }

    /// When a waiting message falls due; zero if it is ready or dead.
    pub(crate) fn due_of(&self, slot: Slot) -> Timestamp {
        let queue = self.slab.get(slot).queue;
        self.queues[queue as usize].due_of(slot).unwrap_or_default()
    }

    /// Lets the next message of a group go, now that this one is out no more.
    pub(crate) fn release(&mut self, number: u16, slot: Slot, now: Timestamp) {
        self.queues[number as usize].release(&self.slab, slot, now);
    }

    /// Hands a message out: from now on it is in flight, under a tag.
    pub(crate) fn take_off(&mut self, queue: u16, slot: Slot, lease_until: Timestamp) -> u64 {
        self.next_tag += 1;
        let tag = self.next_tag;
        let entry = self.slab.get_mut(slot);
        entry.life = Life::InFlight;
        entry.stamp = entry.stamp.wrapping_add(1);
        self.queue(queue).in_flight += 1;
        self.flights.insert(tag, Flight { slot, queue, lease_until, settling: false });
        self.leases.insert((lease_until, tag));
        tag
    }

    /// Ends a delivery, whatever becomes of its message.
    pub(crate) fn land(&mut self, tag: u64) -> Option<Flight> {
        let flight = self.flights.remove(&tag)?;
        self.leases.remove(&(flight.lease_until, tag));
        self.queue(flight.queue).in_flight -= 1;
        Some(flight)
    }

    /// Gives a delivery a new lease. While it is being settled it has none and cannot be lost.
    pub(crate) fn set_lease(&mut self, tag: u64, lease_until: Option<Timestamp>) {
        if let Some(flight) = self.flights.get_mut(&tag) {
            self.leases.remove(&(flight.lease_until, tag));
            flight.settling = lease_until.is_none();
            if let Some(lease_until) = lease_until {
                flight.lease_until = lease_until;
                self.leases.insert((lease_until, tag));
            }
        }
    }

    /// After a time in which the process did not run, its receivers have as much of their leases left as before.
    pub(crate) fn forgive_a_freeze(&mut self, now: Timestamp) {
        let gap = now.since(std::mem::replace(&mut self.looked, now));
        if self.frozen_after.is_none_or(|limit| gap <= limit) {
            return;
        }
        tracing::warn!(for_ms = gap.as_millis(), "the process was suspended; leases go on from here");
        let held: Vec<u64> = self.leases.iter().map(|(_, tag)| *tag).collect();
        for tag in held {
            let until = self.flights.get(&tag).map(|flight| flight.lease_until + gap);
            self.set_lease(tag, until);
        }
    }

    /// When the first lease ends.
    pub(crate) fn next_lease_end(&self) -> Option<Timestamp> {
        self.leases.first().map(|(time, _)| *time)
    }

    pub(crate) fn first_expired(&self, now: Timestamp) -> Option<u64> {
        self.leases.first().filter(|(time, _)| *time <= now).map(|(_, tag)| *tag)
    }

    /// Puts a message in line that recovery has found.
    pub(crate) fn push_recovered(&mut self, slot: Slot, due: Timestamp, now: Timestamp) {
        let queue = self.slab.get(slot).queue;
        self.queues[queue as usize].push(&mut self.slab, slot, due, now);
    }

    /// Counts a message among the dead letters of its queue.
    pub(crate) fn bury(&mut self, slot: Slot, queue: u16, number: u64) {
        let entry = self.slab.get_mut(slot);
        entry.life = Life::Dead;
        entry.group = NONE;
        self.queue(queue).dead.insert(number, slot);
    }

    /// Takes a message out of the dead letters of its queue, if it is one.
    pub(crate) fn exhume(&mut self, slot: Slot) {
        let queue = self.slab.get(slot).queue;
        self.queue(queue).dead.retain(|_, dead| *dead != slot);
    }

    /// Writes events to the journals of their segments. When this fails, at least one of them is not
    /// written, and some may be.
    pub(crate) fn write_events(&mut self, events: &[(Place, Event)]) -> io::Result<()> {
        self.pay()?;
        self.write_by_segment(events).1
    }

    /// Writes events that have already come true. What cannot be written now is owed.
    pub(crate) fn record_events(&mut self, events: &[(Place, Event)]) {
        let (written, result) = match self.pay() {
            Ok(()) => self.write_by_segment(events),
            Err(error) => (0, Err(error)),
        };
        if let Err(error) = result {
            tracing::warn!(%error, "cannot write to the journal; it is tried again with the next settle");
            self.owed.extend_from_slice(&events[written..]);
        }
    }

    /// Writes what is owed.
    fn pay(&mut self) -> io::Result<()> {
        if self.owed.is_empty() {
            return Ok(());
        }
        let mut owed = std::mem::take(&mut self.owed);
        let (written, result) = self.write_by_segment(&owed);
        owed.drain(..written);
        self.owed = owed;
        result
    }

    /// Writes the events, as many as it can; says how many that were.
    fn write_by_segment(&mut self, events: &[(Place, Event)]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while let Some((first, _)) = events.get(written) {
            let same = |(place, _): &&(Place, Event)| place.segment == first.segment;
            let part = &events[written..written + events[written..].iter().take_while(same).count()];
            // A segment that is gone needs no journal: all of its records were done.
            if let Some(segment) = self.segments.get_mut(&first.segment) {
                let slots = || part.iter().map(|(place, event)| (place.offset, *event));
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

    /// Segments that nobody needs any more. None while events are owed: their journals may be needed to
    /// tell which of several copies counts.
    pub(crate) fn take_garbage(&mut self) -> Vec<(u32, Segment)> {
        if self.owed.is_empty() { std::mem::take(&mut self.garbage) } else { Vec::new() }
    }

    /// Whether disk space is held back.
    pub(crate) fn holds_reserve(&self) -> bool {
        self.reserve.is_held()
    }

    /// Whether space was to be held back that the disk does not have.
    pub(crate) fn is_short_of_disk(&self) -> bool {
        self.reserve.is_wanting()
    }

    /// Notes whether disk space is held back for the day when the disk is full.
    pub(crate) fn reserve_filled(&mut self, taken: bool) {
        self.reserve.filled(taken);
    }

    /// Notes that the log has a record here that is needed.
    pub(crate) fn note_record(&mut self, slot: Slot, place: Place, payload: u32) {
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.live += 1;
            segment.live_bytes += record_size(payload as usize) as u64;
            segment.slots.push(slot);
        }
    }

    /// Notes that the record here is needed no more; its segment may be garbage then.
    pub(crate) fn forget_record(&mut self, place: Place, payload: u32) {
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.live -= 1;
            segment.live_bytes -= record_size(payload as usize) as u64;
            self.discard_if_garbage(place.segment);
        }
    }

    /// Takes a finished segment that nobody needs out of the books.
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

    /// Forgets a message for good. Its end must be in the journal already.
    pub(crate) fn erase(&mut self, slot: Slot) {
        let entry = *self.slab.get(slot);
        self.suspects.remove(&slot);
        self.slab.remove(slot);
        self.forget_record(entry.place, entry.payload);
    }

    /// Reads the record of a message.
    pub(crate) fn read(&self, slot: Slot) -> io::Result<Stored> {
        let entry = self.slab.get(slot);
        let segment = self
            .segments
            .get(&entry.place.segment)
            .ok_or_else(|| io::Error::other("the segment of a waiting message is gone"))?;
        let mut bytes = vec![0; HEADER + entry.payload as usize];
        let read = segment.file.read_at(&mut bytes, u64::from(entry.place.offset))?;
        bytes.truncate(read);
        decode(&bytes.into(), segment.salt).ok_or_else(|| damaged(entry.place))
    }
}

/// Verifies a record and takes it apart.
pub(crate) fn decode(record: &Bytes, salt: u32) -> Option<Stored> {
    let head = Head::read(record, salt)?;
    let payload = record.len().checked_sub(HEADER).filter(|have| *have >= head.payload as usize)?;
    let payload = record.slice(HEADER..HEADER + payload.min(head.payload as usize));
    head.verifies(&payload, salt).then(|| Stored::read(&payload))?
}

pub(crate) fn damaged(place: Place) -> io::Error {
    let Place { segment, offset } = place;
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the record at {offset} of segment {segment} is damaged"),
    )
}
