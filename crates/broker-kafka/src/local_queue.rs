//! Local state of a declared queue: its assigned partitions, the buffered records, and the deliveries in flight.
//!
//! States of a record, from its receipt on:
//!
//! ```text
//!            due               candidate                  ledger                settle
//!  waiting ───────▶ ready ───────────────▶ being taken ───────────▶ in flight ─────────▶ settled
//!     │               ▲                         │                       │
//!     └ hop           ├──── call cancelled ─────┘                       │
//!                     └──────────── lease ended (suspect) ──────────────┘
//! ```
//!
//! A waiting record stays in memory until it is due. If too many do, its partition is full and paused; those that were there for the
//! partition's delay then *hop*: they are published to the tier of the time that is left.
//!
//! All states of a partition end when it is revoked: buffered records are dropped, and receipts are fenced. Whatever holds a record
//! outside the lock (a take, a verdict, a hop) compares the epoch of its partition when it comes back.

use crate::{
    engine::Engine,
    names::{self, Names, Source, Topic},
    partition::Partition,
    watermark::{Progress, Received},
    wire::Record,
};
use crawlway_broker::{Message, QueueName, QueueSpec, Timestamp, history::History};
use crawlway_broker_ledger::{self as broker_ledger, Deliveries, MessageKey, State};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tokio::sync::Notify;

/// A declared queue as this process uses it.
pub(crate) type LocalQueue = broker_ledger::LocalQueue<Engine>;
/// A delivery in flight.
pub(crate) type InFlight = broker_ledger::InFlight<Entry>;

/// Topics of a queue, and commits of what is settled in them.
#[derive(Debug)]
pub(crate) struct Topics {
    pub(crate) names: Names,
    /// Wakes calls that wait for a commit.
    pub(crate) commits: Notify,
}

impl Topics {
    pub(crate) fn new(names: Names) -> Self {
        Self { names, commits: Notify::new() }
    }
}

/// A record of an assigned partition.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) record: Arc<Record>,
    /// Epoch of its partition.
    pub(crate) epoch: u64,
    /// Lost workers, as far as they are known before it is taken.
    pub(crate) losses: u32,
}

impl broker_ledger::Entry for Entry {
    fn key(&self, queue: &QueueName) -> MessageKey {
        // Names of queues and these keys are within the limits.
        MessageKey::new(queue.as_str(), self.record.ledger_key.clone())
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn message(&self) -> &Message {
        &self.record.message
    }

    fn history(&self) -> &History {
        &self.record.history
    }

    fn losses(&mut self) -> &mut u32 {
        &mut self.losses
    }
}

/// Local state of a queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) deliveries: Deliveries<Entry>,
    pub(crate) partitions: HashMap<Source, Partition>,
    /// Delayed records, by the time of their next step.
    pub(crate) waiting: BTreeMap<(Timestamp, u64), Entry>,
}

impl State for QueueState {
    type Entry = Entry;

    fn deliveries(&mut self) -> &mut Deliveries<Entry> {
        &mut self.deliveries
    }

    fn put_back(&mut self, entry: Entry, now: Timestamp) {
        self.put(entry, now, true);
    }

    fn is_assigned(&mut self, entry: &Entry) -> bool {
        self.partition_of(entry).is_some()
    }
}

impl QueueState {
    pub(crate) fn new(spec: QueueSpec) -> Self {
        Self { deliveries: Deliveries::new(spec), partitions: HashMap::new(), waiting: BTreeMap::new() }
    }

    /// The partition of an entry, if it is still the same assignment.
    pub(crate) fn partition_of(&mut self, entry: &Entry) -> Option<&mut Partition> {
        let partition = self.partitions.get_mut(&entry.record.source)?;
        (partition.epoch == entry.epoch).then_some(partition)
    }

    /// Adds a received record. `false` if the topic was made anew, so that its partition starts over.
    pub(crate) fn accept(&mut self, record: Record, now: Timestamp) -> bool {
        let source = record.source;
        let Some(partition) = self.partitions.get_mut(&source) else { return true };
        match partition.progress.receive(record.offset) {
            Received::Backwards => {
                self.revoke(source);
                self.partitions.insert(source, Partition::new(Progress::resume(None), 0));
                self.accept(record, now);
                return false;
            }
            Received::Settled => return true,
            Received::New => {}
        }
        if record.offset < partition.purged_below {
            partition.settle(record.offset);
            return true;
        }
        let entry = Entry { losses: record.history.losses, record: Arc::new(record), epoch: partition.epoch };
        self.put(entry, now, false);
        true
    }

    /// Buffers an entry: as ready, at the front or the end, or as waiting. Drops it if its partition is gone.
    pub(crate) fn put(&mut self, entry: Entry, now: Timestamp, front: bool) {
        let Some(partition) = self.partition_of(&entry) else { return };
        partition.buffer(&entry.record);
        match entry.record.history.not_before.filter(|_| entry.record.source.topic == Topic::Wait) {
            Some(due) if due > now => self.insert_waiting(due, entry),
            _ if front => self.deliveries.ready.push_front(entry),
            _ => self.deliveries.ready.push_back(entry),
        }
    }

    /// Buffers an entry until a time, whatever its record says.
    pub(crate) fn hold(&mut self, entry: Entry, until: Timestamp) {
        let Some(partition) = self.partition_of(&entry) else { return };
        partition.buffer(&entry.record);
        self.insert_waiting(until, entry);
    }

    fn insert_waiting(&mut self, time: Timestamp, entry: Entry) {
        let number = self.deliveries.number();
        self.waiting.insert((time, number), entry);
    }

    /// Moves what is due to the ready records.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            let entry = first.remove();
            self.deliveries.ready.push_back(entry);
        }
    }

    /// Removes the records that block a full partition of the wait topic: those which were there for its delay, and are not due. They
    /// move to another tier.
    pub(crate) fn hops(&mut self, now: Timestamp) -> Vec<Entry> {
        let full = |source: &Source| self.partitions.get(source).is_some_and(|partition| partition.is_paused);
        let blocks = |entry: &&Entry| {
            let record = &entry.record;
            let arrived = Timestamp::from_millis(u64::try_from(record.time).unwrap_or(0));
            record.source.topic == Topic::Wait
                && full(&record.source)
                && arrived + names::delay(record.source.partition) <= now
        };
        let blocking: Vec<(Timestamp, u64)> =
            self.waiting.iter().filter(|(_, entry)| blocks(entry)).map(|(key, _)| *key).collect();
        let mut hops = Vec::new();
        for key in blocking {
            if let Some(entry) = self.waiting.remove(&key)
                && let Some(partition) = self.partition_of(&entry)
            {
                partition.unbuffer(&entry.record);
                hops.push(entry);
            }
        }
        hops
    }

    /// Removes up to `max` ready records to be noted in the ledger.
    pub(crate) fn candidates(&mut self, max: usize) -> Vec<Entry> {
        let candidates = self.deliveries.candidates(max, |_| true);
        for entry in &candidates {
            if let Some(partition) = self.partition_of(entry) {
                partition.unbuffer(&entry.record);
            }
        }
        candidates
    }

    /// Time of the next change without a new record: a lease ends or a record is due.
    pub(crate) fn next_time(&self) -> Option<Timestamp> {
        let due = self.waiting.first_key_value().map(|((time, _), _)| *time);
        self.deliveries.next_expiry().into_iter().chain(due).min()
    }

    /// Removes a partition with all its records, and returns what was in flight.
    pub(crate) fn revoke(&mut self, source: Source) -> Vec<InFlight> {
        self.partitions.remove(&source);
        self.deliveries.ready.retain(|entry| entry.record.source != source);
        self.waiting.retain(|_, entry| entry.record.source != source);
        let lost = |_: &u64, held: &mut InFlight| held.entry.record.source == source;
        self.deliveries.in_flight.extract_if(lost).map(|(_, held)| held).collect()
    }

    /// Purges buffered records below these offsets, and what is received below them later. Returns their number.
    pub(crate) fn purge(&mut self, marks: &HashMap<Source, i64>) -> u64 {
        let mut purged = Vec::new();
        let is_purged =
            |entry: &Entry| marks.get(&entry.record.source).is_some_and(|mark| entry.record.offset < *mark);
        self.deliveries.ready.retain(|entry| {
            let keep = !is_purged(entry);
            if !keep {
                purged.push(entry.clone());
            }
            keep
        });
        self.waiting.retain(|_, entry| {
            let keep = !is_purged(entry);
            if !keep {
                purged.push(entry.clone());
            }
            keep
        });
        for entry in &purged {
            if let Some(partition) = self.partition_of(entry) {
                partition.unbuffer(&entry.record);
                partition.settle(entry.record.offset);
            }
        }
        for (source, mark) in marks {
            if let Some(partition) = self.partitions.get_mut(source) {
                partition.purged_below = partition.purged_below.max(*mark);
            }
        }
        purged.len() as u64
    }

    /// Number of buffered records of the wait topic that are due.
    pub(crate) fn due_count(&self) -> u64 {
        self.deliveries.ready.iter().filter(|entry| entry.record.source.topic == Topic::Wait).count() as u64
    }

    /// Whether all changes of a partition up to this version are committed; `None` if the assignment has ended.
    pub(crate) fn is_committed(&self, source: Source, epoch: u64, version: u64) -> Option<bool> {
        let partition = self.partitions.get(&source).filter(|partition| partition.epoch == epoch)?;
        Some(partition.committed >= version)
    }

    /// Whether everything that is settled is committed.
    pub(crate) fn is_all_committed(&self) -> bool {
        self.partitions.values().all(|partition| partition.committed == partition.version)
    }
}
