//! Publishing what came out. An item that cannot be published waits by itself, so that it holds up no other.

use super::engine::{Engine, Worked};
use crate::{Stage, StageError};
use crawlway_broker::PublishError;

/// What became of a try to publish.
pub(super) struct Published<S: Stage> {
    /// Nothing of these is left to publish.
    pub(super) through: Vec<Worked<S>>,
    /// Something of these did not arrive, through no fault of theirs.
    pub(super) missing: Vec<Worked<S>>,
    /// Why.
    pub(super) trouble: Option<PublishError>,
}

impl<S: Stage> Engine<S> {
    /// Publishes what came out of these items, once.
    pub(super) async fn publish(&self, items: Vec<Worked<S>>) -> Published<S> {
        let mut published = Published { through: Vec::new(), missing: Vec::new(), trouble: None };
        let batch: Vec<_> = items.iter().flat_map(|item| item.unsent.iter().cloned()).collect();
        if batch.is_empty() {
            published.through = items;
            return published;
        }
        let mut answers = self.parts.broker.publish(batch).await.into_iter();
        for mut item in items {
            for outgoing in std::mem::take(&mut item.unsent) {
                let silence =
                    || Err(PublishError::Unknown { detail: "the broker gave no answer".to_owned() });
                match answers.next().unwrap_or_else(silence) {
                    Ok(()) => {}
                    Err(error @ (PublishError::TooLarge { .. } | PublishError::Invalid { .. })) => {
                        let reason = format!("what came of it cannot be published: {error}");
                        item.result = Err(StageError::Permanent { reason });
                    }
                    // All else is our wiring, our broker or its limit, and no fault of the item.
                    Err(error) => {
                        // A full queue is looked at sooner than anything else, so that it is what is told.
                        if !published.is_full() {
                            published.trouble = Some(error);
                        }
                        item.unsent.push(outgoing);
                    }
                }
            }
            if item.result.is_err() {
                item.unsent.clear();
            }
            let place = if item.unsent.is_empty() { &mut published.through } else { &mut published.missing };
            place.push(item);
        }
        published
    }
}

impl<S: Stage> Published<S> {
    /// Whether a queue is full, which is nobody's fault and may change any moment.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.trouble, Some(PublishError::QueueFull { .. }))
    }
}
