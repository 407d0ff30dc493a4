//! What was handed out and is not settled, by receipt, with its lease.

use crate::{
    intake::{Arrived, Intake},
    names,
};
use crawlway_broker::{QueueName, Receipt, Timestamp};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// One delivery in somebody's hands.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) arrived: Arrived,
    pub(crate) intake: Arc<Intake>,
    pub(crate) lease: Duration,
    /// Its holder runs nothing else, and there is a mark that says so.
    pub(crate) alone: bool,
    until: Timestamp,
}

impl Entry {
    /// The mark that it has while nothing runs beside it.
    pub(crate) fn mark(&self) -> String {
        names::mark(&self.intake.queue, &self.arrived.carried.copy_id())
    }
}

/// Everything in somebody's hands.
#[derive(Debug)]
pub(crate) struct Held {
    epoch: u64,
    last_tag: u64,
    entries: HashMap<u64, Entry>,
    by_lease: BTreeSet<(Timestamp, u64)>,
}

impl Held {
    /// None. The epoch is this handle's, and nobody else's.
    pub(crate) fn new(epoch: u64) -> Self {
        Self { epoch, last_tag: 0, entries: HashMap::new(), by_lease: BTreeSet::new() }
    }

    /// Hands one out and returns its receipt and when its lease ends.
    pub(crate) fn hand_out(
        &mut self,
        arrived: Arrived,
        intake: &Arc<Intake>,
        lease: Duration,
        now: Timestamp,
    ) -> (Receipt, Timestamp) {
        self.last_tag += 1;
        let (tag, until) = (self.last_tag, now + lease);
        self.by_lease.insert((until, tag));
        self.entries.insert(tag, Entry { arrived, intake: intake.clone(), lease, alone: false, until });
        (Receipt { queue: intake.queue.clone(), epoch: self.epoch, tag }, until)
    }

    pub(crate) fn is_held(&self, receipt: &Receipt, now: Timestamp) -> bool {
        receipt.epoch == self.epoch
            && self
                .entries
                .get(&receipt.tag)
                .is_some_and(|entry| entry.intake.queue == receipt.queue && entry.until > now)
    }

    /// Takes a delivery out of its holder's hands, if the receipt is good for it.
    pub(crate) fn take(&mut self, receipt: &Receipt, now: Timestamp) -> Option<Entry> {
        if !self.is_held(receipt, now) {
            return None;
        }
        self.remove(receipt.tag)
    }

    /// Puts one back into its holder's hands, with its lease renewed.
    pub(crate) fn put_back(&mut self, receipt: &Receipt, mut entry: Entry, now: Timestamp) {
        entry.until = now + entry.lease;
        self.by_lease.insert((entry.until, receipt.tag));
        self.entries.insert(receipt.tag, entry);
    }

    /// Gives a delivery a new lease; `false` if the receipt is good for nothing.
    pub(crate) fn extend(&mut self, receipt: &Receipt, lease: Duration, now: Timestamp) -> bool {
        if !self.is_held(receipt, now) {
            return false;
        }
        if let Some(entry) = self.entries.get_mut(&receipt.tag) {
            self.by_lease.remove(&(entry.until, receipt.tag));
            entry.until = now + lease;
            self.by_lease.insert((entry.until, receipt.tag));
        }
        true
    }

    /// Notes that a delivery's holder runs nothing else, and returns the mark for it.
    pub(crate) fn set_alone(&mut self, receipt: &Receipt, now: Timestamp) -> Option<String> {
        if !self.is_held(receipt, now) {
            return None;
        }
        let entry = self.entries.get_mut(&receipt.tag)?;
        entry.alone = true;
        Some(entry.mark())
    }

    /// Takes out those whose lease has ended.
    pub(crate) fn expired(&mut self, now: Timestamp) -> Vec<Entry> {
        let mut expired = Vec::new();
        while let Some((until, tag)) = self.by_lease.first().copied()
            && until <= now
        {
            expired.extend(self.remove(tag));
        }
        expired
    }

    /// When the next lease ends.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        self.by_lease.first().map(|(until, _)| *until)
    }

    /// Takes out all that came on lost channels.
    pub(crate) fn lost(&mut self, is_lost: impl Fn(&Arrived) -> bool) -> Vec<Entry> {
        let tags: Vec<u64> =
            self.entries.iter().filter(|(_, entry)| is_lost(&entry.arrived)).map(|(tag, _)| *tag).collect();
        tags.into_iter().filter_map(|tag| self.remove(tag)).collect()
    }

    /// How many of a queue are in somebody's hands.
    pub(crate) fn count(&self, queue: &QueueName) -> usize {
        self.entries.values().filter(|entry| entry.intake.queue == *queue).count()
    }

    fn remove(&mut self, tag: u64) -> Option<Entry> {
        let entry = self.entries.remove(&tag)?;
        self.by_lease.remove(&(entry.until, tag));
        Some(entry)
    }
}
