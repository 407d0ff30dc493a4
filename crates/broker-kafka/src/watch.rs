//! Watcher: looks for purges by other processes.

use crate::{engine::Engine, rebalance::purge_marks};
use rdkafka::TopicPartitionList;
use std::sync::Arc;

impl Engine {
    /// Purges what other processes have marked.
    pub(crate) async fn watch_purges(self: &Arc<Self>) {
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
