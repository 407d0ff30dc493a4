//! Administration of queues: depth from the lag, purge by marks, pause by the ledger.

use crate::{
    connection::Connection,
    engine::Engine,
    error::Failure,
    local_queue::LocalQueue,
    names::{Source, Topic},
    rebalance::{by_source, purge_marks},
    watermark::{Progress, Settled},
};
use crawlway_broker::{BrokerError, Depth, QueueName, Timestamp};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _},
    error::{KafkaError, KafkaResult},
    types::RDKafkaErrorCode,
};
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum time and interval of repeating a request that fails right after a topic was made.
const TRANSIENT_WAIT: Duration = Duration::from_secs(5);
const TRANSIENT_DELAY: Duration = Duration::from_millis(100);

/// Offsets of the partitions of a queue.
struct Offsets {
    low: HashMap<Source, i64>,
    end: HashMap<Source, i64>,
    /// Commits of partitions that other processes have.
    committed: HashMap<Source, (i64, Settled)>,
}

impl Engine {
    pub(crate) async fn depth(self: &Arc<Self>, queue: &QueueName) -> Result<Depth, BrokerError> {
        let local = self.local_queue(queue)?;
        let dead = self.ledger.count_dead_letters(queue).await?;
        let offsets = self.offsets(&local).await?;
        let marks = offsets.marks(self, &local).await?;
        let mut state = local.state();
        state.advance(Timestamp::now());
        let (mut main, mut wait) = (0, 0);
        for (source, end) in &offsets.end {
            let low =
                offsets.low.get(source).copied().unwrap_or(0).max(marks.get(source).copied().unwrap_or(0));
            let backlog = match state.partitions.get(source) {
                Some(partition) => partition.progress.backlog(low.max(partition.purged_below), *end),
                None => match offsets.committed.get(source) {
                    Some((offset, settled)) => {
                        let first = low.max(*offset);
                        u64::try_from(end - first).unwrap_or(0).saturating_sub(settled.count_from(first))
                    }
                    None => Progress::default().backlog(low, *end),
                },
            };
            *(if source.topic == Topic::Main { &mut main } else { &mut wait }) += backlog;
        }
        let of_wait = |source: Source| source.topic == Topic::Wait;
        let in_flight = state.deliveries.in_flight.len() as u64;
        let waiting_in_flight =
            state.deliveries.in_flight.values().filter(|held| of_wait(held.entry.record.source)).count()
                as u64;
        let due = state.due_count();
        Ok(Depth {
            ready: (main + due).saturating_sub(in_flight - waiting_in_flight),
            in_flight,
            delayed: wait.saturating_sub(due + waiting_in_flight),
            dead,
            oldest_age: None,
            rates: None,
            exact: false,
            paused: state.deliveries.is_paused,
        })
    }

    /// Reads the offsets of a queue from the servers.
    async fn offsets(self: &Arc<Self>, local: &Arc<LocalQueue>) -> Result<Offsets, Failure> {
        self.check_reachable()?;
        let consumer = self.consumer(&local.queue);
        let reader = if consumer.is_some() { None } else { Some(self.group_client(local)?) };
        let shared = local.clone();
        let read = move |connection: &Connection| -> KafkaResult<Offsets> {
            let timeout = connection.options.request_timeout;
            let mut partitions = TopicPartitionList::new();
            for topic in [&shared.names.main, &shared.names.wait] {
                let metadata = connection.marks.fetch_metadata(Some(topic), timeout)?;
                let known = partitions.count();
                for partition in metadata.topics().iter().flat_map(|topic| topic.partitions()) {
                    partitions.add_partition(topic, partition.id());
                }
                // A server that has not heard of a new topic yet answers with none.
                if partitions.count() == known {
                    return Err(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition));
                }
            }
            let at = |time: Offset| -> KafkaResult<HashMap<Source, i64>> {
                let mut list = partitions.clone();
                list.set_all_offsets(time)?;
                let list = connection.marks.offsets_for_times(list, timeout)?;
                Ok(by_source(&shared, &list))
            };
            let (low, end) = (at(Offset::Beginning)?, at(Offset::End)?);
            let list = match (&consumer, &reader) {
                (Some(consumer), _) => consumer.client.committed_offsets(partitions, timeout)?,
                (None, Some(reader)) => reader.committed_offsets(partitions, timeout)?,
                (None, None) => TopicPartitionList::new(),
            };
            let elements = list.elements();
            let committed = elements.iter().filter_map(|element| {
                let source = shared.names.source(element.topic(), element.partition())?;
                let Offset::Offset(offset) = element.offset() else { return None };
                // The client panics over metadata of other programs that is not UTF-8.
                let metadata = catch_unwind(AssertUnwindSafe(|| element.metadata().to_owned()));
                Some((source, (offset, Settled::decode(offset, &metadata.unwrap_or_default()))))
            });
            Ok(Offsets { low, end, committed: committed.collect() })
        };
        // A new topic has no leader for a moment, and a new group no coordinator.
        let retried = move |connection: &Connection| {
            let start = Instant::now();
            loop {
                match read(connection) {
                    Err(error) if is_transient(&error) && start.elapsed() < TRANSIENT_WAIT => {
                        std::thread::sleep(TRANSIENT_DELAY);
                    }
                    answer => return answer,
                }
            }
        };
        Ok(self.blocking(retried).await??)
    }

    pub(crate) async fn pending(self: &Arc<Self>, queue: &QueueName) -> Result<u64, BrokerError> {
        Ok(self.depth(queue).await?.pending())
    }

    pub(crate) async fn purge(self: &Arc<Self>, queue: &QueueName) -> Result<u64, BrokerError> {
        let local = self.local_queue(queue)?;
        let before = self.depth(queue).await?;
        let offsets = self.offsets(&local).await?;
        let (marks, shared) = (offsets.end, local.clone());
        let list = marks.iter().map(|(source, mark)| (*source, *mark)).collect::<Vec<_>>();
        self.blocking(move |connection| -> Result<(), Failure> {
            let mut commits = TopicPartitionList::new();
            for (source, mark) in list {
                commits.add_partition_offset(
                    shared.names.topic(source.topic),
                    source.partition,
                    Offset::Offset(mark),
                )?;
            }
            connection.marks.commit(&commits, CommitMode::Sync)?;
            Ok(())
        })
        .await??;
        local.state().purge(&marks);
        if let Some(consumer) = self.consumer(queue) {
            consumer.update(&local);
        }
        local.wake();
        Ok(before.pending())
    }
}

impl Offsets {
    /// Purge marks of the partitions that other processes have.
    async fn marks(&self, engine: &Engine, local: &Arc<LocalQueue>) -> Result<HashMap<Source, i64>, Failure> {
        let mut partitions = TopicPartitionList::new();
        {
            let state = local.state();
            for source in self.end.keys().filter(|source| !state.partitions.contains_key(source)) {
                partitions.add_partition(local.names.topic(source.topic), source.partition);
            }
        }
        if partitions.count() == 0 {
            return Ok(HashMap::new());
        }
        let shared = local.clone();
        let marks = engine.blocking(move |connection| purge_marks(connection, &partitions, &shared));
        Ok(marks.await??)
    }
}

/// Whether a request may succeed a moment later.
fn is_transient(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::NotLeaderForPartition
                | RDKafkaErrorCode::LeaderNotAvailable
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::NotCoordinator
                | RDKafkaErrorCode::CoordinatorNotAvailable
                | RDKafkaErrorCode::CoordinatorLoadInProgress
        )
    )
}
