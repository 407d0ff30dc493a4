//! Step 4, publish: the output of finished items. An item that cannot be published yet does not block the others.

use super::engine::{Engine, Processed};
use crate::{Stage, StageError};
use crawlway_broker::PublishError;

/// Result of one publish call for several items.
pub(super) struct PublishOutcome<S: Stage> {
    /// Items without unpublished output.
    pub(super) published: Vec<Processed<S>>,
    /// Items with output that the broker did not accept for a reason other than the message itself.
    pub(super) unpublished: Vec<Processed<S>>,
    /// Reason why output was not accepted.
    pub(super) error: Option<PublishError>,
}

impl<S: Stage> Engine<S> {
    /// Publishes the output of these items with one call.
    pub(super) async fn publish(&self, items: Vec<Processed<S>>) -> PublishOutcome<S> {
        let mut outcome = PublishOutcome { published: Vec::new(), unpublished: Vec::new(), error: None };
        let batch: Vec<_> = items.iter().flat_map(|item| item.unpublished.iter().cloned()).collect();
        if batch.is_empty() {
            outcome.published = items;
            return outcome;
        }
        let mut answers = self.services.broker.publish(batch).await.into_iter();
        for mut item in items {
            for outgoing in std::mem::take(&mut item.unpublished) {
                let no_answer =
                    || Err(PublishError::Unconfirmed { detail: "the broker gave no answer".to_owned() });
                match answers.next().unwrap_or_else(no_answer) {
                    Ok(()) => {}
                    Err(error @ (PublishError::TooLarge { .. } | PublishError::Invalid { .. })) => {
                        let reason = format!("its output cannot be published: {error}");
                        item.result = Err(StageError::Permanent { reason });
                    }
                    // Because of the wiring, the broker or a full queue, not of the message: published again later.
                    Err(error) => {
                        // A full queue takes precedence, since it is retried sooner.
                        if !outcome.is_queue_full() {
                            outcome.error = Some(error);
                        }
                        item.unpublished.push(outgoing);
                    }
                }
            }
            if item.result.is_err() {
                item.unpublished.clear();
            }
            let items =
                if item.unpublished.is_empty() { &mut outcome.published } else { &mut outcome.unpublished };
            items.push(item);
        }
        outcome
    }
}

impl<S: Stage> PublishOutcome<S> {
    /// Whether a queue is full, which is no outage and may change at any time.
    pub(super) fn is_queue_full(&self) -> bool {
        matches!(self.error, Some(PublishError::QueueFull { .. }))
    }
}
