//! Settling: by deleting a message, or by hiding it until its next attempt.
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
    local_queue::{InFlight, LocalQueue, MARGIN},
    options::MAX_VISIBILITY,
    publish::nonce,
    wire,
};
use crawlway_broker::{
    Receipt, SettleError, SettleOutcome, Timestamp, Verdict,
    history::{History, NextStep},
};
use crawlway_broker_ledger::Settlement;
use std::{sync::Arc, time::Duration};

/// Retention of the queues, less a day: a message that would wait for longer is sent again.
const RETENTION: Duration = Duration::from_secs(13 * 24 * 60 * 60);

/// A delivery with a verdict.
pub(crate) struct Claim {
    pub(crate) local: Arc<LocalQueue>,
    pub(crate) tag: u64,
    pub(crate) delivery: InFlight,
}

type Answer = Result<SettleOutcome, SettleError>;

impl Engine {
    pub(crate) async fn settle(self: Arc<Self>, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Answer> {
        if let Err(closed) = self.check_open() {
            return verdicts.iter().map(|_| Err(closed.clone().into())).collect();
        }
        let now = Timestamp::now();
        let mut answers: Vec<Answer> = Vec::with_capacity(verdicts.len());
        let mut finished: Vec<(usize, Claim)> = Vec::new();
        for (index, (receipt, verdict)) in verdicts.into_iter().enumerate() {
            let claim = match self.claim(&receipt, now) {
                Ok(claim) => claim,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            let max_attempts = claim.local.state().spec.max_attempts;
            let answer = match claim.delivery.history.clone().apply(verdict, max_attempts, now) {
                NextStep::Done => {
                    finished.push((index, claim));
                    Ok(SettleOutcome::Done)
                }
                NextStep::Redeliver(history, outcome) => {
                    match self.redeliver(&claim, &history, outcome, now).await {
                        Ok(true) => {
                            finished.push((index, claim));
                            Ok(outcome)
                        }
                        Ok(false) => Ok(outcome),
                        Err(error) => Err(give_up(&claim, error)),
                    }
                }
                NextStep::Bury(history, death) => match self.bury(&claim, &history, Some(&death)).await {
                    Ok(()) => {
                        finished.push((index, claim));
                        Ok(SettleOutcome::Dead)
                    }
                    Err(error) => Err(give_up(&claim, error)),
                },
            };
            answers.push(answer);
        }
        for (index, error) in self.finish(finished).await {
            answers[index] = Err(error);
        }
        answers
    }

    /// Reserves a delivery for its verdict.
    fn claim(&self, receipt: &Receipt, now: Timestamp) -> Result<Claim, SettleError> {
        let local = self.leased(receipt, now)?;
        let mut state = local.state();
        let Some(delivery) = state.in_flight.get_mut(&receipt.tag) else {
            return Err(SettleError::Fenced { queue: receipt.queue.clone() });
        };
        delivery.settling = true;
        let delivery = delivery.clone();
        drop(state);
        Ok(Claim { local, tag: receipt.tag, delivery })
    }

    /// Queue of a delivery whose lease is valid, and which is still hidden from others.
    fn leased(&self, receipt: &Receipt, now: Timestamp) -> Result<Arc<LocalQueue>, SettleError> {
        let local = self.queues.find(&receipt.queue).filter(|_| receipt.epoch == self.epoch);
        let is_valid =
            |held: &InFlight| !held.settling && held.until > now && held.entry.hidden_until > now + MARGIN;
        local
            .filter(|local| local.state().in_flight.get(&receipt.tag).is_some_and(is_valid))
            .ok_or_else(|| SettleError::Fenced { queue: receipt.queue.clone() })
    }

    /// Has a message delivered again. `true` if it was sent again, so that this one is to be deleted.
    async fn redeliver(
        self: &Arc<Self>,
        claim: &Claim,
        history: &History,
        outcome: SettleOutcome,
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
        local.state().in_flight.remove(&claim.tag);
        self.start_polls(local);
        local.wake();
        Ok(false)
    }

    /// Deletes messages, and removes them from the ledger. Returns those that failed.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        mut claims: Vec<(usize, Claim)>,
    ) -> Vec<(usize, SettleError)> {
        let mut failed = Vec::new();
        while let Some((_, first)) = claims.first() {
            let local = first.local.clone();
            let (here, others): (Vec<_>, Vec<_>) =
                claims.into_iter().partition(|(_, claim)| claim.local.queue == local.queue);
            claims = others;
            let handles: Vec<String> =
                here.iter().map(|(_, claim)| claim.delivery.entry.received.handle.clone()).collect();
            let mut done = Vec::new();
            for ((index, claim), result) in
                here.into_iter().zip(self.connection.delete(&local.url, &handles).await)
            {
                match result {
                    Ok(true) => {
                        local.state().in_flight.remove(&claim.tag);
                        done.push(claim.delivery.entry.key(&local.queue));
                    }
                    Ok(false) => {
                        failed.push((
                            index,
                            give_up(&claim, SettleError::Fenced { queue: local.queue.clone() }),
                        ));
                    }
                    Err(failure) => failed.push((index, give_up(&claim, failure.into()))),
                }
            }
            self.ledger.settle(done, &Settlement::Done).await;
            self.start_polls(&local);
            local.wake();
        }
        failed
    }

    pub(crate) async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let now = Timestamp::now();
        let extend = |receipt: &Receipt| {
            self.check_open()?;
            let local = self.leased(receipt, now)?;
            if let Some(held) = local.state().in_flight.get_mut(&receipt.tag) {
                held.until = now + lease;
            }
            local.keeper.notify_one();
            Ok(())
        };
        receipts.iter().map(extend).collect()
    }

    pub(crate) async fn mark_solo(self: Arc<Self>, receipt: Receipt) -> Result<(), SettleError> {
        self.check_open()?;
        let local = self.leased(&receipt, Timestamp::now())?;
        let key = local.state().in_flight.get(&receipt.tag).map(|held| held.entry.key(&local.queue));
        match key {
            Some(key) => self.ledger.mark_solo(&local.queue, &key).await,
            None => Err(SettleError::Fenced { queue: local.queue.clone() }),
        }
    }
}

/// Gives a delivery back to its consumer, with a new lease, if its verdict could not be stored; a fenced one is forgotten.
fn give_up(claim: &Claim, error: SettleError) -> SettleError {
    let mut state = claim.local.state();
    let lease = state.spec.lease;
    if !matches!(error, SettleError::Unavailable { .. }) {
        state.in_flight.remove(&claim.tag);
    } else if let Some(delivery) = state.in_flight.get_mut(&claim.tag) {
        delivery.settling = false;
        delivery.until = Timestamp::now() + lease;
    }
    drop(state);
    claim.local.keeper.notify_one();
    error
}
