//! What verdicts, dead letters and replays do on Kafka: copies are published, and offsets committed.
//!
//! Steps of a verdict; a crash between two of them gives a duplicate, never a loss:
//!
//! | verdict | before the offset is settled |
//! |---|---|
//! | done | |
//! | retry, defer, requeue | confirmed copy in `NAME.wait` |
//! | dead, last retry | row in the ledger, then a confirmed copy in `NAME.dead` |
//!
//! Then the offset is settled, the watermark committed, and the delivery removed from the ledger. While a verdict is carried out, the
//! lease does not end.

use crate::{
    engine::Engine,
    local_queue::{Entry, LocalQueue, QueueState, Topics},
    names::{self, Source},
    wire::{self, DeadCopy, Publication, Record},
};
use crawlway_broker::{Death, PublishError, SettleError, Timestamp, history::History};
use crawlway_broker_ledger::{Backend, Claim, Redelivery, ReplayCopy};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Maximum wait for the commit of a settled delivery. After it the commit still follows, unless the process ends before.
const COMMIT_WAIT: Duration = Duration::from_secs(5);
/// Minimum time after which a message that another process runs is taken again.
const BUSY_DELAY: Duration = Duration::from_millis(100);

impl Backend for Engine {
    type Queue = Topics;
    type Entry = Entry;
    type State = QueueState;

    async fn put_off(&self, local: &LocalQueue, busy: Vec<(Entry, Timestamp)>) {
        let (mut state, soonest) = (local.state(), Timestamp::now() + BUSY_DELAY);
        for (entry, until) in busy {
            state.hold(entry, until.max(soonest));
        }
        drop(state);
        local.wake();
    }

    async fn redeliver(
        &self,
        redeliveries: &[Redelivery<Engine>],
        now: Timestamp,
    ) -> Vec<Result<bool, SettleError>> {
        let copy = |Redelivery { claim, history, .. }: &Redelivery<Engine>| {
            copy_to_queue(&claim.local, &claim.delivery.entry.record, history, now)
        };
        let copies: Vec<Publication> = redeliveries.iter().map(copy).collect();
        let published = self.connection.publish(&copies).await;
        published.into_iter().map(|result| result.map(|()| true).map_err(unavailable)).collect()
    }

    async fn finish(&self, local: &LocalQueue, claims: &[Claim<Engine>]) -> Vec<Result<(), SettleError>> {
        // Last version of each partition and epoch.
        let mut versions: HashMap<(Source, u64), u64> = HashMap::new();
        let results = {
            let mut state = local.state();
            let mut settle = |claim: &Claim<Engine>| {
                let entry = state.deliveries.in_flight.remove(&claim.tag)?.entry;
                let partition = state.partition_of(&entry)?;
                partition.settle(entry.record.offset);
                versions.insert((entry.record.source, partition.epoch), partition.version);
                Some(())
            };
            let fenced = || SettleError::Fenced { queue: local.queue.clone() };
            claims.iter().map(|claim| settle(claim).ok_or_else(fenced)).collect()
        };
        if let Some(consumer) = self.consumer(&local.queue) {
            consumer.update(local);
        }
        local.changed.notify_waiters();
        let is_committed = |state: &QueueState| {
            let is_open = |(&(source, epoch), &version): (&(Source, u64), &u64)| {
                state.is_committed(source, epoch, version) == Some(false)
            };
            !versions.iter().any(is_open)
        };
        let _ = tokio::time::timeout(COMMIT_WAIT, commits(local, is_committed)).await;
        results
    }

    async fn copy_dead(
        &self,
        claim: &Claim<Engine>,
        history: &History,
        death: &Death,
    ) -> Result<(), SettleError> {
        let local = &claim.local;
        self.make_dead_topic(local).await?;
        let dead = DeadCopy { cause: death.cause.as_str(), reason: &death.reason };
        let record = &claim.delivery.entry.record;
        let copy = wire::encode_copy(record, history, local.names.dead.clone(), Some(dead));
        match self.connection.publish(&[copy]).await.remove(0) {
            // The ledger has it whole.
            Err(error @ PublishError::TooLarge { .. }) => {
                tracing::warn!(queue = %local.queue, %error, "a dead letter has no copy for other programs");
                Ok(())
            }
            result => result.map_err(unavailable),
        }
    }

    async fn publish_replays(
        &self,
        local: &LocalQueue,
        copies: Vec<ReplayCopy>,
    ) -> Vec<Result<(), PublishError>> {
        let encode = |copy: &ReplayCopy| {
            wire::encode_replay(&copy.message, copy.replays, copy.epoch, local.names.wait.clone())
        };
        let copies: Vec<_> = copies.iter().map(encode).collect();
        self.connection.publish(&copies).await
    }

    async fn watch_server(self: &Arc<Self>, is_cleanup: bool) {
        self.watch_purges().await;
        if self.connection.health.is_down() {
            let _ = self.blocking(|connection| connection.probe(Duration::from_secs(2))).await;
        }
        if is_cleanup {
            self.trim_wait_topics().await;
        }
    }
}

fn unavailable(error: PublishError) -> SettleError {
    SettleError::Unavailable { detail: error.to_string() }
}

/// Waits until the commits of a queue fulfil a condition.
pub(crate) async fn commits(local: &LocalQueue, is_fulfilled: impl Fn(&QueueState) -> bool) {
    loop {
        let commits = local.commits.notified();
        tokio::pin!(commits);
        commits.as_mut().enable();
        if is_fulfilled(&local.state()) {
            return;
        }
        commits.await;
    }
}

/// Copy of a message for its redelivery. It is in the wait topic also if it is due, since other programs read the queue's topic.
pub(crate) fn copy_to_queue(
    local: &LocalQueue,
    record: &Record,
    history: &History,
    now: Timestamp,
) -> Publication {
    let remaining = history.not_before.map_or(Duration::ZERO, |due| due.since(now));
    let mut copy = wire::encode_copy(record, history, local.names.wait.clone(), None);
    copy.partition = Some(names::tier(remaining));
    copy
}
