//! Registry of the items in flight, for extending their leases and handing them back.

use crawlway_broker::{Delivery, MessageId, Receipt};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::time::Instant;

/// Identity of an item in flight, for its trail and its settlement.
#[derive(Debug, Clone)]
pub(super) struct ItemMeta {
    pub(super) receipt: Receipt,
    pub(super) id: MessageId,
    pub(super) subject: Option<String>,
    pub(super) attempt: u32,
    pub(super) replays: u32,
}

impl ItemMeta {
    /// Identity of a delivery that is not decoded.
    pub(super) fn of(delivery: &Delivery) -> Self {
        Self {
            receipt: delivery.receipt.clone(),
            id: delivery.message.id.clone(),
            subject: None,
            attempt: delivery.attempt,
            replays: delivery.replays,
        }
    }
}

#[derive(Debug)]
struct Entry {
    meta: ItemMeta,
    received_at: Instant,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The stage runs it, or is about to.
    Running,
    /// The stage has run; the finisher has it.
    Finishing,
    /// Its lease is lost: another worker may have it.
    Lost,
}

#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Receipt, Entry>>);

impl InFlight {
    pub(super) fn insert(&self, delivery: &Delivery) {
        let meta = ItemMeta::of(delivery);
        let entry = Entry { meta, received_at: Instant::now(), state: State::Running };
        self.0.lock().insert(delivery.receipt.clone(), entry);
    }

    /// Replaces the identity of an item by the decoded one, should it have to be handed back.
    pub(super) fn set_meta(&self, meta: &ItemMeta) {
        if let Some(entry) = self.0.lock().get_mut(&meta.receipt) {
            entry.meta = meta.clone();
        }
    }

    pub(super) fn set_finishing(&self, receipt: &Receipt) {
        if let Some(entry) = self.0.lock().get_mut(receipt)
            && entry.state == State::Running
        {
            entry.state = State::Finishing;
        }
    }

    pub(super) fn set_lost(&self, receipt: &Receipt) {
        if let Some(entry) = self.0.lock().get_mut(receipt) {
            entry.state = State::Lost;
        }
    }

    pub(super) fn is_lost(&self, receipt: &Receipt) -> bool {
        self.0.lock().get(receipt).is_some_and(|entry| entry.state == State::Lost)
    }

    pub(super) fn contains(&self, receipt: &Receipt) -> bool {
        self.0.lock().contains_key(receipt)
    }

    pub(super) fn remove(&self, receipt: &Receipt) {
        self.0.lock().remove(receipt);
    }

    /// Receipts whose leases are to be extended.
    pub(super) fn receipts(&self) -> Vec<Receipt> {
        let entries = self.0.lock();
        let owned = entries.iter().filter(|(_, entry)| entry.state != State::Lost);
        owned.map(|(receipt, _)| receipt.clone()).collect()
    }

    /// Number of items that the stage has not finished.
    pub(super) fn running_count(&self) -> usize {
        self.0.lock().values().filter(|entry| entry.state == State::Running).count()
    }

    /// Items that the stage has not finished, with the times they were received.
    pub(super) fn running(&self) -> Vec<(ItemMeta, Instant)> {
        let entries = self.0.lock();
        let running = entries.values().filter(|entry| entry.state == State::Running);
        running.map(|entry| (entry.meta.clone(), entry.received_at)).collect()
    }
}
