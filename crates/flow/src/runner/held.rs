//! The items that this runner holds, for renewing their leases and handing them back.

use crawlway_broker::{Delivery, MessageId, Receipt};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::time::Instant;

/// What is known of an item that is held.
#[derive(Debug, Clone)]
pub(super) struct Holding {
    pub(super) id: MessageId,
    pub(super) subject: Option<String>,
    pub(super) attempt: u32,
    pub(super) replays: u32,
    pub(super) taken: Instant,
    /// Whose turn it is.
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The stage has it, or is about to.
    Working,
    /// The stage is done with it; the finisher has it.
    Finishing,
    /// Its lease was lost: it is somebody else's.
    Lost,
}

#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HashMap<Receipt, Holding>>);

impl Held {
    pub(super) fn insert(&self, delivery: &Delivery) {
        let holding = Holding {
            id: delivery.message.id.clone(),
            subject: None,
            attempt: delivery.attempt,
            replays: delivery.replays,
            taken: Instant::now(),
            state: State::Working,
        };
        self.0.lock().insert(delivery.receipt.clone(), holding);
    }

    /// Notes what an item is about, should it have to be handed back.
    pub(super) fn about(&self, receipt: &Receipt, id: &MessageId, subject: Option<&String>) {
        if let Some(holding) = self.0.lock().get_mut(receipt) {
            holding.id = id.clone();
            holding.subject = subject.cloned();
        }
    }

    pub(super) fn finishing(&self, receipt: &Receipt) {
        if let Some(holding) = self.0.lock().get_mut(receipt)
            && holding.state == State::Working
        {
            holding.state = State::Finishing;
        }
    }

    pub(super) fn lost(&self, receipt: &Receipt) {
        if let Some(holding) = self.0.lock().get_mut(receipt) {
            holding.state = State::Lost;
        }
    }

    pub(super) fn is_lost(&self, receipt: &Receipt) -> bool {
        self.0.lock().get(receipt).is_some_and(|holding| holding.state == State::Lost)
    }

    /// The id of an item, and what it is about.
    pub(super) fn what(&self, receipt: &Receipt) -> Option<(MessageId, Option<String>)> {
        self.0.lock().get(receipt).map(|holding| (holding.id.clone(), holding.subject.clone()))
    }

    pub(super) fn contains(&self, receipt: &Receipt) -> bool {
        self.0.lock().contains_key(receipt)
    }

    pub(super) fn remove(&self, receipt: &Receipt) {
        self.0.lock().remove(receipt);
    }

    /// All whose lease is to be renewed.
    pub(super) fn receipts(&self) -> Vec<Receipt> {
        let held = self.0.lock();
        let ours = held.iter().filter(|(_, holding)| holding.state != State::Lost);
        ours.map(|(receipt, _)| receipt.clone()).collect()
    }

    /// How many the stage has not finished with.
    pub(super) fn working(&self) -> usize {
        self.0.lock().values().filter(|holding| holding.state == State::Working).count()
    }

    /// What the stage has not finished with.
    pub(super) fn unfinished(&self) -> Vec<(Receipt, Holding)> {
        let held = self.0.lock();
        let unfinished = held.iter().filter(|(_, holding)| holding.state == State::Working);
        unfinished.map(|(receipt, holding)| (receipt.clone(), holding.clone())).collect()
    }
}
