//! Step 2, decode: deliveries become items in batches.

use super::{
    engine::{Engine, Processed},
    in_flight::ItemMeta,
    panics::panic_message,
};
use crate::{FailureCounter, Item, Stage, StageError};
use crawlway_broker::{Delivery, MessageId, suspects::SOLO_AFTER};
use crawlway_store::TrailEntry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::time::Instant;

/// Attempt from which on an item is a batch of its own, so that a panic fails no other items with it.
const SEPARATE_FROM_ATTEMPT: u32 = 3;
/// Maximum number of items for which recorded losses are remembered.
const MAX_RECORDED_LOSSES: usize = 10_000;

/// Items that the stage runs together.
pub(super) struct Batch<S: Stage> {
    /// Identities of the items, in order.
    pub(super) metas: Vec<ItemMeta>,
    pub(super) items: Vec<Item<S::In>>,
    /// Number of slots that the items take.
    pub(super) slots: usize,
    /// Whether its only item is a suspect that must run solo.
    pub(super) solo: bool,
}

/// Decoded deliveries.
pub(super) struct Decoded<S: Stage> {
    pub(super) batches: Vec<Batch<S>>,
    /// Items that cannot be decoded.
    pub(super) invalid: Vec<Processed<S>>,
    /// Trail entries of lost workers, which these could not write themselves.
    pub(super) losses: Vec<TrailEntry>,
}

impl<S: Stage> Engine<S> {
    /// Decodes deliveries and forms batches.
    pub(super) fn decode_all(&self, deliveries: Vec<Delivery>) -> Decoded<S> {
        let mut decoded =
            Decoded { batches: Vec::<Batch<S>>::new(), invalid: Vec::new(), losses: Vec::new() };
        // The last attempt is a batch of its own, unless it is the first.
        let separate_from = SEPARATE_FROM_ATTEMPT.min(self.source.max_attempts().max(2));
        let mut is_open = false;
        for delivery in deliveries {
            let (value, meta) = match self.decode(&delivery) {
                Ok(decoded) => decoded,
                Err(error) => {
                    let (meta, now) = (ItemMeta::of(&delivery), self.services.clock.now());
                    decoded.invalid.push(Processed::not_run(meta, Instant::now(), now, error));
                    continue;
                }
            };
            self.in_flight.set_meta(&meta);
            if self.is_new_loss(&meta.id, delivery.losses) {
                decoded.losses.push(self.loss_entry(&meta, delivery.losses));
            }
            let (slots, solo) = (self.slots_of(&delivery), delivery.losses >= SOLO_AFTER);
            let is_separate = solo || meta.attempt >= separate_from;
            let failures = FailureCounter::default();
            let item = Item { id: meta.id.clone(), value, attempt: meta.attempt, failures };
            match decoded.batches.last_mut() {
                Some(batch) if is_open && !is_separate && batch.items.len() < self.settings.batch => {
                    batch.slots += slots;
                    batch.metas.push(meta);
                    batch.items.push(item);
                }
                _ => {
                    decoded.batches.push(Batch { metas: vec![meta], items: vec![item], slots, solo });
                    is_open = !is_separate;
                }
            }
        }
        decoded
    }

    /// Decodes a delivery. An invalid one is a permanent failure; a panic is a failed attempt.
    fn decode(&self, delivery: &Delivery) -> Result<(S::In, ItemMeta), StageError> {
        let decode = || {
            let value = self.stage.decode(delivery)?;
            let (subject, id) = (self.stage.subject(&value), self.stage.item_id(&value));
            let meta = ItemMeta::of(delivery);
            let id = id.unwrap_or_else(|| meta.id.clone());
            Ok((value, ItemMeta { subject, id, ..meta }))
        };
        match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(decoded) => decoded
                .map_err(|invalid: crate::Invalid| StageError::Permanent { reason: invalid.to_string() }),
            Err(panic) => {
                let error = format!("the stage panicked while decoding: {}", panic_message(&*panic));
                tracing::error!(stage = self.stage.name(), error, "the stage panicked");
                Err(StageError::Transient { after: None, error })
            }
        }
    }

    /// Whether the trail of an item lacks this loss, as far as this process knows.
    fn is_new_loss(&self, id: &MessageId, losses: u32) -> bool {
        if losses == 0 {
            return false;
        }
        let mut recorded = self.recorded_losses.lock();
        if recorded.len() >= MAX_RECORDED_LOSSES {
            recorded.clear();
        }
        recorded.insert(id.clone(), losses) != Some(losses)
    }
}
