//! What verdicts, dead letters and replays do on SQS: a message is deleted, or hidden until its next attempt.
//!
//! Steps of a verdict; a crash between two of them gives a duplicate, never a loss:
//!
//! | verdict | steps |
//! |---|---|
//! | done | deleted, then removed from the ledger |
//! | retry | attempt counted in the ledger, then hidden for the delay |
//! | defer, requeue | returned in the ledger, then hidden until its time, or visible |
//! | a delay that is too long to be hidden | sent again with its time, then deleted |
//! | dead, last retry | row in the ledger, copy in the dead queue, then deleted |

use crate::{
    connection::seconds,
    engine::Engine,
    error::Failure,
    local_queue::{Address, Entry, LocalQueue, QueueState},
    names::digest,
    options::MAX_VISIBILITY,
    publish::nonce,
    wire::{self, Place},
};
use crawlway_broker::{Death, PublishError, SettleError, SettleOutcome, Timestamp, history::History};
use crawlway_broker_ledger::{Backend, Claim, Entry as _, Redelivery, ReplayCopy, Settlement};
use std::{sync::Arc, time::Duration};

/// Retention of the queues, less a day: a message that would wait for longer is sent again.
const RETENTION: Duration = Duration::from_secs(13 * 24 * 60 * 60);

impl Backend for Engine {
    type Queue = Address;
    type Entry = Entry;
    type State = QueueState;

    async fn put_off(&self, local: &LocalQueue, busy: Vec<(Entry, Timestamp)>) {
        let now = Timestamp::now();
        let hide = |(entry, until): (Entry, Timestamp)| {
            let delay = until.since(now).clamp(Duration::from_secs(1), MAX_VISIBILITY);
            (entry.received.handle.clone(), seconds(delay))
        };
        let hidden: Vec<_> = busy.into_iter().map(hide).collect();
        self.connection.change_visibility(&local.url, &hidden).await;
    }

    async fn redeliver(
        &self,
        redeliveries: &[Redelivery<Engine>],
        now: Timestamp,
    ) -> Vec<Result<bool, SettleError>> {
        let mut results = Vec::with_capacity(redeliveries.len());
        for redelivery in redeliveries {
            results.push(self.hide_or_send_again(redelivery, now).await);
        }
        results
    }

    async fn finish(&self, local: &LocalQueue, claims: &[Claim<Engine>]) -> Vec<Result<(), SettleError>> {
        let handles: Vec<String> =
            claims.iter().map(|claim| claim.delivery.entry.received.handle.clone()).collect();
        let deleted = self.connection.delete(&local.url, &handles).await;
        let answer = |(claim, result): (&Claim<Engine>, Result<bool, Failure>)| match result? {
            true => {
                local.state().deliveries.in_flight.remove(&claim.tag);
                Ok(())
            }
            false => Err(SettleError::Fenced { queue: local.queue.clone() }),
        };
        let answers = claims.iter().zip(deleted).map(answer).collect();
        local.changed.notify_waiters();
        answers
    }

    async fn copy_dead(
        &self,
        claim: &Claim<Engine>,
        history: &History,
        death: &Death,
    ) -> Result<(), SettleError> {
        let (local, received) = (&claim.local, &claim.delivery.entry.received);
        let create = || async { self.create_queue(&local.names.dead, local.queue.as_str(), "dead").await };
        let url = local.dead_url.get_or_try_init(create).await?;
        // Not a nonce: after a crash the repeat is no duplicate for five minutes. A group of its own, since one reader that is stuck would
        // hold up the others.
        let nonce = digest(&format!("{} {}", received.message_id, history.replays));
        let place = Place { group: nonce.clone(), nonce };
        let copy = wire::encode_copy(&received.message, history, None, Some(death), place);
        if copy.size() > self.connection.options.max_size {
            tracing::warn!(queue = %local.queue, "a dead letter is too large for a copy for other programs");
            return Ok(());
        }
        let sent = self.connection.send(url, &[copy]).await.remove(0);
        sent.map_err(|error| SettleError::Unavailable { detail: error.to_string() })
    }

    async fn publish_replays(
        &self,
        local: &LocalQueue,
        copies: Vec<ReplayCopy>,
    ) -> Vec<Result<(), PublishError>> {
        let encode = |copy: &ReplayCopy| {
            let history = History { replays: copy.replays, ..History::default() };
            let nonce = digest(&format!("{} {} {}", local.queue, copy.letter, copy.epoch));
            let place = Self::copy_place(local, copy.message.group.as_ref(), nonce);
            wire::encode_copy(&copy.message, &history, Some(copy.epoch), None, place)
        };
        let copies: Vec<_> = copies.iter().map(encode).collect();
        self.connection.send(&local.url, &copies).await
    }

    async fn watch_server(self: &Arc<Self>, _is_cleanup: bool) {
        if self.connection.is_down() {
            let _ = self.connection.probe().await;
        }
    }
}

impl Engine {
    /// Has a message delivered again. `true` if it was sent again, so that this one is to be deleted.
    async fn hide_or_send_again(
        &self,
        Redelivery { claim, history, outcome }: &Redelivery<Engine>,
        now: Timestamp,
    ) -> Result<bool, SettleError> {
        let (local, entry) = (&claim.local, &claim.delivery.entry);
        let delay = history.not_before.map_or(Duration::ZERO, |time| time.since(now));
        let hidden_so_far = now.since(entry.received_at);
        if delay + hidden_so_far >= MAX_VISIBILITY || now + delay >= entry.received.sent + RETENTION {
            let place = Self::copy_place(local, entry.received.message.group.as_ref(), nonce());
            let copy = wire::encode_copy(&entry.received.message, history, None, None, place);
            let sent = self.connection.send(&local.url, &[copy]).await.remove(0);
            return match sent {
                Ok(()) => Ok(true),
                Err(error) => Err(SettleError::Unavailable { detail: error.to_string() }),
            };
        }
        let settlement = match (outcome, &history.last_error) {
            (SettleOutcome::Retrying { .. }, Some(failure)) => {
                Settlement::Failed { error: failure.error.clone() }
            }
            _ => Settlement::Returned,
        };
        self.ledger.try_settle(vec![entry.key(&local.queue)], &settlement).await?;
        let change = (entry.received.handle.clone(), seconds(delay));
        let result = self.connection.change_visibility(&local.url, &[change]).await.remove(0);
        if let Err(error) = result {
            // The ledger has the verdict.
            tracing::warn!(queue = %local.queue, %error, "a message comes back when its visibility timeout ends");
        }
        Ok(false)
    }
}
