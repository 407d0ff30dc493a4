//! Watcher: keeps the session in the ledger, and looks for pauses and purges by other processes.

use crate::{
    engine::{Engine, message_key},
    local_queue::LocalQueue,
    rebalance::purge_marks,
};
use crawlway_broker_ledger::MessageKey;
use rdkafka::TopicPartitionList;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

impl Engine {
    /// Keeps the session and watches for changes by other processes, until the broker is closed.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut last_cleanup = Instant::now();
        while !self.is_closed() {
            self.ledger.keep_session(|| self.keys_in_flight()).await;
            self.watch_pauses().await;
            self.watch_purges().await;
            if self.connection.health.is_down() {
                let _ = self.blocking(|connection| connection.probe(Duration::from_secs(2))).await;
            }
            if last_cleanup.elapsed() > self.connection.options.cleanup_interval {
                last_cleanup = Instant::now();
                self.ledger.purge_expired().await;
                self.trim_wait_topics().await;
            }
            tokio::select! {
                () = tokio::time::sleep(self.ledger.watch_interval()) => {}
                () = self.closing.notified() => {}
            }
        }
    }

    /// Removes done messages from the ledger, until the broker is closed.
    pub(crate) async fn remove_done(self: Arc<Self>) {
        while !self.is_closed() {
            tokio::select! {
                () = self.ledger.done_removed() => {}
                () = self.closing.notified() => {}
            }
        }
    }

    fn keys_in_flight(&self) -> Vec<MessageKey> {
        let mut keys = Vec::new();
        for local in self.queues.all() {
            let state = local.state();
            let in_flight = state.in_flight.values();
            keys.extend(in_flight.map(|delivery| message_key(&local.queue, &delivery.entry.record)));
        }
        keys
    }

    async fn watch_pauses(&self) {
        let Some(paused) = self.ledger.watch_pauses().await else { return };
        for local in self.queues.all() {
            self.set_paused(&local, paused.contains(local.queue.as_str()));
        }
    }

    pub(crate) fn set_paused(&self, local: &LocalQueue, paused: bool) {
        let mut state = local.state();
        let changed = state.is_paused != paused;
        state.is_paused = paused;
        drop(state);
        if changed {
            local.wake();
        }
    }

    /// Purges what other processes have marked.
    async fn watch_purges(self: &Arc<Self>) {
        for local in self.queues.all() {
            let Some(consumer) = self.consumer(&local.queue) else { continue };
            let mut partitions = TopicPartitionList::new();
            for source in local.state().partitions.keys() {
                partitions.add_partition(local.names.topic(source.topic), source.partition);
            }
            if partitions.count() == 0 || self.connection.health.is_down() {
                continue;
            }
            let shared = local.clone();
            let marks = self.blocking(move |connection| purge_marks(connection, &partitions, &shared)).await;
            if let Ok(Ok(marks)) = marks {
                local.state().purge(&marks);
                consumer.update(&local);
            }
        }
    }
}
