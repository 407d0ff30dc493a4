//! Settling: copies are published, dead letters noted, and offsets committed, in this order.
//!
//! Steps of a verdict; a crash between two of them gives a duplicate, never a loss:
//!
//! | verdict | before the offset is settled |
//! |---|---|
//! | done | |
//! | retry, defer | confirmed copy in `NAME.wait`, or in `NAME` if it is due |
//! | requeue | confirmed copy in `NAME` |
//! | dead, last retry | row in the ledger, then a confirmed copy in `NAME.dead` |
//!
//! Then the offset is settled, the watermark committed, and the delivery removed from the ledger. While a verdict is carried out, the
//! lease does not end.

use crate::{
    engine::{Engine, message_key},
    local_queue::{InFlight, LocalQueue},
    names::{self, Source},
    wire::{self, Publication, Record},
};
use crawlway_broker::{
    Death, QueueName, Receipt, SettleError, SettleOutcome, Timestamp, Verdict,
    history::{History, NextStep},
};
use crawlway_broker_ledger::MessageKey;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// Maximum wait for the commit of a settled delivery. After it the commit still follows, unless the process ends before.
const COMMIT_WAIT: Duration = Duration::from_secs(5);

/// A delivery with a verdict.
pub(crate) struct Claim {
    pub(crate) local: Arc<LocalQueue>,
    pub(crate) tag: u64,
    pub(crate) delivery: InFlight,
}

/// What a verdict needs before its delivery is settled.
enum Plan {
    Nothing(SettleOutcome),
    Copy(Box<Publication>, SettleOutcome),
    Dead(Box<History>, Death),
}

/// Settled deliveries of one queue, whose commit is awaited.
struct Settled {
    local: Arc<LocalQueue>,
    keys: Vec<MessageKey>,
    /// Last version of each partition and epoch.
    versions: HashMap<(Source, u64), u64>,
}

type Answer = Result<SettleOutcome, SettleError>;

impl Engine {
    pub(crate) async fn settle(self: Arc<Self>, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Answer> {
        if let Err(closed) = self.check_open() {
            return verdicts.iter().map(|_| Err(closed.clone().into())).collect();
        }
        let now = Timestamp::now();
        let mut answers: Vec<Answer> = Vec::with_capacity(verdicts.len());
        let (mut copies, mut claims, mut deaths) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (receipt, verdict)) in verdicts.into_iter().enumerate() {
            let claim = match self.claim(&receipt, now) {
                Ok(claim) => claim,
                Err(error) => {
                    answers.push(Err(error));
                    continue;
                }
            };
            match self.plan(&claim, verdict, now) {
                Plan::Nothing(outcome) => {
                    answers.push(Ok(outcome));
                    claims.push((index, claim));
                }
                Plan::Copy(publication, outcome) => {
                    answers.push(Ok(outcome));
                    copies.push((index, claim, *publication));
                }
                Plan::Dead(history, death) => {
                    answers.push(Ok(SettleOutcome::Dead));
                    deaths.push((index, claim, history, death));
                }
            }
        }
        let publications: Vec<Publication> =
            copies.iter().map(|(_, _, publication)| publication.clone()).collect();
        let published = self.connection.publish(&publications).await;
        for ((index, claim, _), result) in copies.into_iter().zip(published) {
            match result {
                Ok(()) => claims.push((index, claim)),
                Err(error) => answers[index] = Err(release(&claim, &error.to_string())),
            }
        }
        for (index, claim, history, death) in deaths {
            match self.bury(&claim, &history, Some(&death)).await {
                Ok(()) => claims.push((index, claim)),
                Err(SettleError::Unavailable { detail }) => answers[index] = Err(release(&claim, &detail)),
                Err(error) => {
                    claim.local.state().in_flight.remove(&claim.tag);
                    answers[index] = Err(error);
                }
            }
        }
        for (index, fenced) in self.finish(claims).await {
            answers[index] = Err(fenced);
        }
        answers
    }

    /// Reserves a delivery for its verdict.
    fn claim(&self, receipt: &Receipt, now: Timestamp) -> Result<Claim, SettleError> {
        let fenced = || SettleError::Fenced { queue: receipt.queue.clone() };
        let local =
            self.queues.find(&receipt.queue).filter(|_| receipt.epoch == self.epoch).ok_or_else(fenced)?;
        let mut state = local.state();
        let delivery =
            state.in_flight.get_mut(&receipt.tag).filter(|held| !held.settling && held.until > now);
        let delivery = delivery.ok_or_else(fenced)?;
        delivery.settling = true;
        let delivery = delivery.clone();
        drop(state);
        Ok(Claim { local, tag: receipt.tag, delivery })
    }

    fn plan(&self, claim: &Claim, verdict: Verdict, now: Timestamp) -> Plan {
        let max_attempts = claim.local.state().spec.max_attempts;
        match claim.delivery.history.clone().apply(verdict, max_attempts, now) {
            NextStep::Done => Plan::Nothing(SettleOutcome::Done),
            NextStep::Redeliver(history, outcome) => {
                let copy = copy_to_queue(&claim.local, &claim.delivery.entry.record, history, now);
                Plan::Copy(Box::new(copy), outcome)
            }
            NextStep::Bury(history, death) => Plan::Dead(Box::new(history), death),
        }
    }

    /// Settles the offsets of claimed deliveries, waits for their commit and removes them from the ledger. Returns those that were
    /// fenced meanwhile.
    pub(crate) async fn finish(&self, claims: Vec<(usize, Claim)>) -> Vec<(usize, SettleError)> {
        let mut fenced = Vec::new();
        let mut queues: BTreeMap<QueueName, Settled> = BTreeMap::new();
        for (index, claim) in claims {
            let mut state = claim.local.state();
            let entry = state.in_flight.remove(&claim.tag).map(|delivery| delivery.entry);
            let settled = entry.and_then(|entry| {
                let partition = state.partition_of(&entry)?;
                partition.settle(entry.record.offset);
                Some(((entry.record.source, partition.epoch), partition.version))
            });
            drop(state);
            let Some((partition, version)) = settled else {
                fenced.push((index, SettleError::Fenced { queue: claim.local.queue.clone() }));
                continue;
            };
            let key = message_key(&claim.local.queue, &claim.delivery.entry.record);
            let settled = queues.entry(claim.local.queue.clone()).or_insert_with(|| Settled {
                local: claim.local.clone(),
                keys: Vec::new(),
                versions: HashMap::new(),
            });
            settled.keys.push(key);
            settled.versions.insert(partition, version);
        }
        for (queue, Settled { local, keys, versions }) in queues {
            if let Some(consumer) = self.consumer(&queue) {
                consumer.update(&local);
            }
            local.changed.notify_waiters();
            let _ = tokio::time::timeout(COMMIT_WAIT, committed(&local, &versions)).await;
            self.ledger.remove_done(keys);
        }
        fenced
    }

    pub(crate) async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let now = Timestamp::now();
        let extend = |receipt: &Receipt| {
            self.check_open()?;
            let fenced = || SettleError::Fenced { queue: receipt.queue.clone() };
            let local = self.queues.find(&receipt.queue).filter(|_| receipt.epoch == self.epoch);
            let local = local.ok_or_else(fenced)?;
            let mut state = local.state();
            let held =
                state.in_flight.get_mut(&receipt.tag).filter(|held| held.until > now && !held.settling);
            held.ok_or_else(fenced)?.until = now + lease;
            drop(state);
            local.keeper.notify_one();
            Ok(())
        };
        receipts.iter().map(extend).collect()
    }

    pub(crate) async fn mark_solo(self: Arc<Self>, receipt: Receipt) -> Result<(), SettleError> {
        self.check_open()?;
        let fenced = || SettleError::Fenced { queue: receipt.queue.clone() };
        let local =
            self.queues.find(&receipt.queue).filter(|_| receipt.epoch == self.epoch).ok_or_else(fenced)?;
        let key = {
            let (state, now) = (local.state(), Timestamp::now());
            let held = state.in_flight.get(&receipt.tag).filter(|held| held.until > now && !held.settling);
            message_key(&local.queue, &held.ok_or_else(fenced)?.entry.record)
        };
        self.ledger.mark_solo(&local.queue, &key).await
    }
}

/// Gives a delivery back to its consumer, with a new lease, since its verdict could not be stored.
fn release(claim: &Claim, detail: &str) -> SettleError {
    let mut state = claim.local.state();
    let lease = state.spec.lease;
    let Some(delivery) = state.in_flight.get_mut(&claim.tag) else {
        return SettleError::Fenced { queue: claim.local.queue.clone() };
    };
    delivery.settling = false;
    delivery.until = Timestamp::now() + lease;
    drop(state);
    claim.local.keeper.notify_one();
    SettleError::Unavailable { detail: detail.to_owned() }
}

/// Waits until all these changes are committed, or their assignments have ended.
async fn committed(local: &LocalQueue, versions: &HashMap<(Source, u64), u64>) {
    loop {
        let commits = local.commits.notified();
        tokio::pin!(commits);
        commits.as_mut().enable();
        let is_done = {
            let state = local.state();
            let is_open = |(&(source, epoch), &version): (&(Source, u64), &u64)| {
                state.is_committed(source, epoch, version) == Some(false)
            };
            !versions.iter().any(is_open)
        };
        if is_done {
            return;
        }
        commits.await;
    }
}

/// Copy of a message for its queue, or for its wait topic if it is delayed.
pub(crate) fn copy_to_queue(
    local: &LocalQueue,
    record: &Record,
    history: History,
    now: Timestamp,
) -> Publication {
    let remaining = history.not_before.filter(|due| *due > now).map(|due| due.since(now));
    let topic = if remaining.is_some() { &local.names.wait } else { &local.names.main };
    let mut copy = wire::encode_copy(record, &history, topic.clone(), None);
    copy.partition = remaining.map(names::tier);
    copy
}
