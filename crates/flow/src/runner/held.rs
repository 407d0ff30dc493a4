//! The items that this runner holds, for renewing their leases and handing them back.

use crawlway_broker::{MessageId, Receipt};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What is known of an item that is held.
#[derive(Debug, Clone)]
pub(super) struct Holding {
    pub(super) id: MessageId,
    pub(super) subject: Option<String>,
    pub(super) attempt: u32,
    /// The stage is done with it; the finisher has it.
    pub(super) finishing: bool,
}

#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HashMap<Receipt, Holding>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<Receipt, Holding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, receipt: Receipt, holding: Holding) {
        self.lock().insert(receipt, holding);
    }

    pub(super) fn finishing(&self, receipt: &Receipt) {
        if let Some(holding) = self.lock().get_mut(receipt) {
            holding.finishing = true;
        }
    }

    pub(super) fn remove<'r>(&self, receipts: impl Iterator<Item = &'r Receipt>) {
        let mut held = self.lock();
        for receipt in receipts {
            held.remove(receipt);
        }
    }

    pub(super) fn receipts(&self) -> Vec<Receipt> {
        self.lock().keys().cloned().collect()
    }

    /// What the stage has not finished with.
    pub(super) fn unfinished(&self) -> Vec<(Receipt, Holding)> {
        let held = self.lock();
        let unfinished = held.iter().filter(|(_, holding)| !holding.finishing);
        unfinished.map(|(receipt, holding)| (receipt.clone(), holding.clone())).collect()
    }
}
