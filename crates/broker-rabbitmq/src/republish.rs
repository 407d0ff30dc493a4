//! Republishing of unsettled messages: a copy with an updated history, then the acknowledgement of the original.
//!
//! ```text
//!  delivered, lease expired or worker lost
//!    │ publish copy
//!    ▼
//!  confirmed? ── yes ─▶ ack the original
//!    │ no
//!    ├─ a receiver may have it ─▶ prefetch buffer, with the updated history
//!    └─ otherwise ─▶ nack after RETURN_DELAY: the server delivers it again
//! ```
//!
//! The copy goes to the dead-letter queue, a delay queue or `:due` ([`copy`]).

use crate::{
    engine::Engine,
    local_queue::{Incoming, LocalQueue, PendingAck, Source},
    names,
    publisher::PublishOutcome,
    redelivery::RedeliveryCause,
    wire::Publication,
};
use crawlway_broker::{Death, Failure, QueueName, QueueSpec, Timestamp, history::History};
use std::{sync::Arc, time::Duration};

/// Delay before a message that could not be republished is returned to its queue.
const RETURN_DELAY: Duration = Duration::from_millis(500);

const WORKER_LOST: &str = "the worker or its connection was lost before the message was settled";
const LEASE_LOST: &str = "the lease was lost: not settled in time";

/// Copy of a message with this history, for its queue or the dead letters.
pub(crate) fn copy(queue: &QueueSpec, incoming: &Incoming, mut history: History) -> Publication {
    let now = Timestamp::now();
    if let Some(death) = death(queue, incoming, &history) {
        return dead_letter(&queue.name, incoming, &history, &death, now);
    }
    let delay = history.not_before.map(|time| time.since(now)).unwrap_or_default();
    if delay.is_zero() {
        history.not_before = None;
    }
    let properties = incoming.decoded.encode_copy(&history);
    let body = incoming.decoded.message.body.clone();
    Publication::to_queue(names::delay_target(&queue.name, delay), properties, body)
}

/// Copy of a message for the dead-letter queue.
pub(crate) fn dead_letter(
    queue: &QueueName,
    incoming: &Incoming,
    history: &History,
    death: &Death,
    now: Timestamp,
) -> Publication {
    let properties = incoming.decoded.encode_dead_letter(history, death, now);
    Publication::to_queue(names::dead_letters(queue), properties, incoming.decoded.message.body.clone())
}

impl Engine {
    /// Waits until an ack or nack does not make a limited queue's consumer prefetch a message that no receiver waits for.
    pub(crate) async fn before_ack<'i>(
        &self,
        local: &'i LocalQueue,
        incoming: &Incoming,
    ) -> Option<PendingAck<'i>> {
        let from_consumer = incoming.source == Source::Main && incoming.ack_channel.is_subscribed();
        if from_consumer && local.is_limited() { Some(local.before_ack().await) } else { None }
    }

    /// Republishes a message that no receiver has, in the background. Few at a time, so that a kill leaves few
    /// duplicates.
    pub(crate) fn republish(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
        incoming: Incoming,
        cause: RedeliveryCause,
    ) {
        let (engine, local) = (self.clone(), local.clone());
        let blocks_due = cause != RedeliveryCause::Uncounted || incoming.source == Source::Main;
        let republishing = blocks_due.then(|| local.start_republishing());
        self.runtime.spawn(async move {
            let permit = local.republish_permit().await;
            let failed = engine.try_republish(&local, incoming, cause).await;
            drop(permit);
            if let Some((incoming, history)) = failed {
                engine.buffer_or_return(&local, incoming, history).await;
            }
            drop(republishing);
            local.wake();
        });
    }

    /// Publishes the copy and acknowledges the original. On failure, returns the message and the history of its copy.
    async fn try_republish(
        self: &Arc<Self>,
        local: &LocalQueue,
        incoming: Incoming,
        cause: RedeliveryCause,
    ) -> Option<(Incoming, History)> {
        let (queue, mut history) = (&local.queue, incoming.decoded.history.clone());
        let mut solo_marker = None;
        match cause {
            RedeliveryCause::Uncounted => self.expect_redelivery(queue, &incoming),
            RedeliveryCause::LeaseExpired => record_loss(&mut history, LEASE_LOST),
            RedeliveryCause::WorkerLost => {
                record_loss(&mut history, WORKER_LOST);
                match self.has_solo_marker(queue, &incoming).await {
                    Some(false) => {}
                    Some(true) => {
                        history.solo_crashes = history.solo_crashes.saturating_add(1);
                        solo_marker = Some(names::solo_marker(queue, &incoming.decoded.copy_id()));
                    }
                    None => return Some((incoming, history)),
                }
            }
        }
        // The server has requeued the original: a copy would be a duplicate.
        if self.is_channel_lost(&incoming.ack_channel) {
            return None;
        }
        let copy = copy(&local.spec(), &incoming, history.clone());
        let outcome = match self.session().await {
            Ok(session) => session.publish_one(copy).await,
            Err(error) => PublishOutcome::Unsent(error.to_string()),
        };
        if outcome == PublishOutcome::Confirmed {
            let pending = self.before_ack(local, &incoming).await;
            // After an error the channel is lost, and the message is delivered twice.
            let acked = incoming.ack_channel.ack_synced(&[incoming.tag]).await;
            drop(pending);
            self.count_delayed(queue).await;
            if acked.is_ok() {
                self.take_expected_redelivery(queue, &incoming);
            }
            if let Some(marker) = solo_marker {
                self.delete_marker(marker).await;
            }
            return None;
        }
        tracing::warn!(%queue, ?outcome, "message could not be republished");
        if outcome == PublishOutcome::Unroutable {
            self.report_missing(queue);
        }
        Some((incoming, history))
    }

    /// Buffers a message that could not be republished, if a receiver may have it, or returns it. Buffering lets a server
    /// that is short of memory or disk be drained.
    async fn buffer_or_return(&self, local: &LocalQueue, mut incoming: Incoming, history: History) {
        let delayed = history.not_before.is_some_and(|time| time > Timestamp::now());
        let dead = death(&local.spec(), &incoming, &history).is_some();
        if !delayed && !dead && !self.is_channel_lost(&incoming.ack_channel) {
            // A redelivery counts once a receiver has it.
            let expected = self.take_expected_redelivery(&local.queue, &incoming);
            let original = std::mem::replace(&mut incoming.decoded.history, history);
            match local.offer(incoming) {
                None => return,
                Some(refused) => incoming = refused,
            }
            incoming.decoded.history = original;
            if expected {
                self.expect_redelivery(&local.queue, &incoming);
            }
        }
        return_later(&incoming).await;
    }

    /// Returns prefetched messages that were delivered to no receiver.
    pub(crate) async fn return_prefetched(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
        prefetched: Vec<Incoming>,
    ) {
        for incoming in prefetched {
            match incoming.source {
                Source::Main => {
                    self.expect_redelivery(&local.queue, &incoming);
                    let _ = incoming.ack_channel.nack(&[incoming.tag]).await;
                }
                // Nacked into `:due`, it would count as a lost worker in the next process.
                Source::Due => {
                    let failed = self.try_republish(local, incoming, RedeliveryCause::Uncounted).await;
                    if let Some((incoming, _)) = failed {
                        return_later(&incoming).await;
                    }
                }
            }
        }
    }
}

/// Nacks a message after a delay, since the server delivers it again at once.
async fn return_later(incoming: &Incoming) {
    tokio::time::sleep(RETURN_DELAY).await;
    let _ = incoming.ack_channel.nack(&[incoming.tag]).await;
}

/// Records a lost worker, which is no attempt.
fn record_loss(history: &mut History, error: &str) {
    history.record_error(Failure { error: error.into(), at: Timestamp::now() });
    history.losses = history.losses.saturating_add(1);
    history.not_before = None;
}

/// Reason why a message with this history is a dead letter without a verdict, if it is one.
fn death(queue: &QueueSpec, incoming: &Incoming, history: &History) -> Option<Death> {
    let crashes = history.solo_crashes;
    let is_dead = crashes > incoming.decoded.history.solo_crashes && crashes >= queue.max_solo_crashes;
    is_dead.then(|| Death::after_solo_crashes(crashes))
}
