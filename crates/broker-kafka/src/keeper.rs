//! Keeper of a queue: ends leases, makes room in full delay tiers, and removes records of the wait topic that are settled.

use crate::{
    backend::copy_to_queue,
    consumer::Consumer,
    engine::Engine,
    local_queue::{Entry, LocalQueue},
    names::Topic,
};
use crawlway_broker::Timestamp;
use crawlway_broker_ledger::{Entry as _, Settlement};
use rdkafka::{Offset, TopicPartitionList, admin::AdminOptions};
use std::{sync::Arc, time::Duration};

/// Interval of looking for changes that nothing announces, such as a commit that has to be repeated.
const INTERVAL: Duration = Duration::from_secs(1);

impl Engine {
    /// Runs until the broker is closed.
    pub(crate) async fn keep(self: Arc<Self>, local: Arc<LocalQueue>, consumer: Arc<Consumer>) {
        while !self.is_closed() {
            let now = Timestamp::now();
            let (expired, hops, next) = {
                let mut state = local.state();
                (state.deliveries.expired(now), state.hops(now), state.next_time())
            };
            if !expired.is_empty() {
                self.expire(&local, expired).await;
                continue;
            }
            if !hops.is_empty() {
                self.hop(&local, hops, now).await;
                consumer.update(&local);
                continue;
            }
            let sleep =
                next.map_or(INTERVAL, |time| time.since(now)).clamp(Duration::from_millis(1), INTERVAL);
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = local.keeper.notified() => {}
            }
        }
    }

    /// Makes deliveries ready again whose leases have ended: each is suspect by one more lost worker.
    async fn expire(&self, local: &LocalQueue, expired: Vec<Entry>) {
        let keys = expired.iter().map(|entry| entry.key(&local.queue)).collect();
        self.ledger.settle(keys, &Settlement::LeaseExpired).await;
        let (mut state, now) = (local.state(), Timestamp::now());
        for entry in expired {
            state.put(Entry { losses: entry.losses.saturating_add(1), ..entry }, now, true);
        }
        drop(state);
        local.changed.notify_waiters();
    }

    /// Moves records to the tier of the time that is left until they are due.
    async fn hop(&self, local: &LocalQueue, hops: Vec<Entry>, now: Timestamp) {
        let copies: Vec<_> = hops
            .iter()
            .map(|entry| copy_to_queue(local, &entry.record, &entry.record.history, now))
            .collect();
        let results = self.connection.publish(&copies).await;
        let failed = results.iter().any(Result::is_err);
        {
            let mut state = local.state();
            for (entry, result) in hops.into_iter().zip(results) {
                match result {
                    Ok(()) => {
                        if let Some(partition) = state.partition_of(&entry) {
                            partition.settle(entry.record.offset);
                        }
                    }
                    Err(_) => state.put(entry, now, false),
                }
            }
        }
        if failed {
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Removes settled records from the own partitions of wait topics.
    pub(crate) async fn trim_wait_topics(&self) {
        for local in self.queues.all() {
            let mut offsets = TopicPartitionList::new();
            for (source, partition) in &local.state().partitions {
                if source.topic == Topic::Wait
                    && partition.committed > 0
                    && let Some(watermark) = partition.progress.watermark()
                {
                    let _ = offsets.add_partition_offset(
                        &local.names.wait,
                        source.partition,
                        Offset::Offset(watermark),
                    );
                }
            }
            if offsets.count() > 0 {
                let options =
                    AdminOptions::new().request_timeout(Some(self.connection.options.request_timeout));
                if let Err(error) = self.connection.admin.delete_records(&offsets, &options).await {
                    tracing::debug!(queue = %local.queue, %error, "removing settled records of the wait topic");
                }
            }
        }
    }
}
