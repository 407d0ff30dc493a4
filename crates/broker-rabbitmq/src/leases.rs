//! Leases: deliveries to receivers that are not settled, by receipt.
//!
//! ```text
//!               ┌── extend ──┐
//!               ▼            │
//!  receive ─▶ leased ────────┴─▶ settled, by a verdict
//!               ├─ lease expired ─▶ republished as suspect
//!               └─ channel lost ──▶ fenced; the server redelivers
//! ```
//!
//! A receipt of an expired or fenced delivery is answered with `Fenced`.

use crate::{
    engine::Engine,
    local_queue::{Incoming, LocalQueue},
    names,
    redelivery::RedeliveryCause,
};
use crawlway_broker::{QueueName, Receipt, Timestamp};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// Longest sleep of the lease watcher, since a lease can be shortened meanwhile.
const MAX_WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A delivery to a receiver that is not settled.
#[derive(Debug)]
pub(crate) struct LeasedDelivery {
    pub(crate) incoming: Incoming,
    pub(crate) local: Arc<LocalQueue>,
    pub(crate) lease: Duration,
    /// Its worker runs nothing else, and it has a solo marker.
    pub(crate) solo: bool,
    until: Timestamp,
}

impl LeasedDelivery {
    pub(crate) fn solo_marker(&self) -> String {
        names::solo_marker(&self.local.queue, &self.incoming.decoded.copy_id())
    }
}

/// All leased deliveries of a broker handle.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    epoch: u64,
    last_tag: u64,
    entries: HashMap<u64, LeasedDelivery>,
    by_expiry: BTreeSet<(Timestamp, u64)>,
}

impl LeaseTable {
    /// Empty table. The epoch is unique to this broker handle.
    pub(crate) fn new(epoch: u64) -> Self {
        Self { epoch, last_tag: 0, entries: HashMap::new(), by_expiry: BTreeSet::new() }
    }

    /// Leases a delivery; returns its receipt and the expiry.
    pub(crate) fn insert(
        &mut self,
        incoming: Incoming,
        local: &Arc<LocalQueue>,
        lease: Duration,
        now: Timestamp,
    ) -> (Receipt, Timestamp) {
        self.last_tag += 1;
        let (tag, until) = (self.last_tag, now + lease);
        self.by_expiry.insert((until, tag));
        self.entries
            .insert(tag, LeasedDelivery { incoming, local: local.clone(), lease, solo: false, until });
        (Receipt { queue: local.queue.clone(), epoch: self.epoch, tag }, until)
    }

    /// Whether the receipt's lease is valid.
    pub(crate) fn is_leased(&self, receipt: &Receipt, now: Timestamp) -> bool {
        receipt.epoch == self.epoch
            && self
                .entries
                .get(&receipt.tag)
                .is_some_and(|entry| entry.local.queue == receipt.queue && entry.until > now)
    }

    /// Removes a delivery if its lease is valid.
    pub(crate) fn take(&mut self, receipt: &Receipt, now: Timestamp) -> Option<LeasedDelivery> {
        if self.is_leased(receipt, now) { self.remove(receipt.tag) } else { None }
    }

    /// Leases a delivery again under its old receipt, because it could not be settled.
    pub(crate) fn put_back(&mut self, receipt: &Receipt, mut entry: LeasedDelivery, now: Timestamp) {
        entry.until = now + entry.lease;
        self.by_expiry.insert((entry.until, receipt.tag));
        self.entries.insert(receipt.tag, entry);
    }

    /// Restarts a lease with a new length; `false` if it is no longer valid.
    pub(crate) fn extend(&mut self, receipt: &Receipt, lease: Duration, now: Timestamp) -> bool {
        if !self.is_leased(receipt, now) {
            return false;
        }
        if let Some(entry) = self.entries.get_mut(&receipt.tag) {
            self.by_expiry.remove(&(entry.until, receipt.tag));
            entry.until = now + lease;
            self.by_expiry.insert((entry.until, receipt.tag));
        }
        true
    }

    /// Flags a delivery as solo; returns the name of its marker, or none if the lease is no longer valid.
    pub(crate) fn set_solo(&mut self, receipt: &Receipt, now: Timestamp) -> Option<String> {
        if !self.is_leased(receipt, now) {
            return None;
        }
        let entry = self.entries.get_mut(&receipt.tag)?;
        entry.solo = true;
        Some(entry.solo_marker())
    }

    /// Number of leased deliveries of a queue.
    pub(crate) fn count(&self, queue: &QueueName) -> usize {
        self.entries.values().filter(|entry| entry.local.queue == *queue).count()
    }

    fn next_expiry(&self) -> Option<Timestamp> {
        self.by_expiry.first().map(|(until, _)| *until)
    }

    fn take_expired(&mut self, now: Timestamp) -> Vec<LeasedDelivery> {
        let mut expired = Vec::new();
        while let Some((until, tag)) = self.by_expiry.first().copied()
            && until <= now
        {
            expired.extend(self.remove(tag));
        }
        expired
    }

    fn take_lost(&mut self, is_lost: impl Fn(&Incoming) -> bool) -> Vec<LeasedDelivery> {
        let lost = self.entries.iter().filter(|(_, entry)| is_lost(&entry.incoming));
        let tags: Vec<u64> = lost.map(|(tag, _)| *tag).collect();
        tags.into_iter().filter_map(|tag| self.remove(tag)).collect()
    }

    fn remove(&mut self, tag: u64) -> Option<LeasedDelivery> {
        let entry = self.entries.remove(&tag)?;
        self.by_expiry.remove(&(entry.until, tag));
        Some(entry)
    }
}

impl Engine {
    /// leased → republished, for every expired lease.
    pub(crate) fn expire_leases(self: &Arc<Self>) {
        let expired = self.leases().take_expired(Timestamp::now());
        for entry in expired {
            self.delete_marker_in_background(&entry);
            self.republish(&entry.local, entry.incoming, RedeliveryCause::LeaseExpired);
            entry.local.settled(1);
        }
    }

    /// leased or prefetched → fenced, for everything that was delivered on a lost channel.
    pub(crate) fn fence(self: &Arc<Self>, is_lost: impl Fn(&Incoming) -> bool) {
        let lost = self.leases().take_lost(&is_lost);
        for local in self.queues.all() {
            for incoming in local.remove_lost(&is_lost) {
                self.expect_redelivery(&local.queue, &incoming);
            }
            local.wake();
        }
        for entry in lost {
            self.expect_redelivery(&entry.local.queue, &entry.incoming);
            entry.local.settled(1);
            self.delete_marker_in_background(&entry);
        }
    }

    /// Lease watcher task: expires leases on time until the broker is closed.
    pub(crate) async fn watch_leases(self: Arc<Self>) {
        while !self.connection.is_closed() {
            self.expire_leases();
            let next = self.leases().next_expiry();
            let delay = next.map_or(MAX_WATCH_INTERVAL, |expiry| expiry.since(Timestamp::now()));
            tokio::select! {
                () = tokio::time::sleep(delay.clamp(Duration::from_millis(1), MAX_WATCH_INTERVAL)) => {}
                () = self.leases_changed.notified() => {}
                () = self.connection.closed() => {}
            }
        }
    }
}
