//! Callbacks of a queue's consumer: assignments, revocations, and commits of what is settled.
//!
//! A callback never waits for a stage: it fences the receipts of revoked partitions and sends their last commit. One commit is in
//! flight at a time, so that an older one cannot overtake a newer one. The server does not check who owns a partition; so a commit is
//! made from the map of assigned partitions alone.

use crate::{
    connection::Connection,
    health::Callbacks,
    local_queue::{InFlight, LocalQueue, QueueState},
    names::Source,
    partition::Partition,
    watermark::Progress,
};
use parking_lot::{Condvar, Mutex};
use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext},
    error::{KafkaError, KafkaResult},
    topic_partition_list::TopicPartitionListElem,
    types::{RDKafkaErrorCode, RDKafkaRespErr},
};
use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::UnboundedSender;

/// Timeout of reading commits in a callback.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait of a revoke for a commit that is being made.
const REVOKE_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait for changes.
const CHANGES_WAIT: Duration = Duration::from_millis(100);

/// Callbacks of a queue's consumer.
pub(crate) struct Rebalance {
    local: Arc<LocalQueue>,
    pub(crate) connection: Arc<Connection>,
    callbacks: Callbacks,
    /// Deliveries whose partition was revoked.
    revoked: UnboundedSender<Vec<InFlight>>,
    /// The next poll joins the group again, since partitions could not be assigned.
    pub(crate) rejoin: AtomicBool,
    /// Commits have no metadata: the server allows less than it needs.
    without_metadata: AtomicBool,
    /// Held while a commit is made and answered.
    committing: Mutex<()>,
    /// Wakes the thread that commits.
    has_changed: Mutex<bool>,
    changes: Condvar,
}

impl Rebalance {
    pub(crate) fn new(
        local: Arc<LocalQueue>,
        connection: Arc<Connection>,
        revoked: UnboundedSender<Vec<InFlight>>,
    ) -> Self {
        Self {
            local,
            callbacks: Callbacks(connection.health.clone()),
            connection,
            revoked,
            rejoin: AtomicBool::new(false),
            without_metadata: AtomicBool::new(false),
            committing: Mutex::new(()),
            has_changed: Mutex::new(false),
            changes: Condvar::new(),
        }
    }
}

impl ClientContext for Rebalance {
    fn error(&self, error: KafkaError, reason: &str) {
        self.callbacks.error(error, reason);
    }

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.callbacks.log(level, facility, message);
    }
}

impl ConsumerContext for Rebalance {
    fn rebalance(
        &self,
        client: &BaseConsumer<Self>,
        event: RDKafkaRespErr,
        partitions: &mut TopicPartitionList,
    ) {
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            if let Err(error) = self.assign(client, partitions) {
                tracing::warn!(queue = %self.local.queue, %error, "partitions cannot be assigned; joining again");
                // Their records are ignored, since they are not in the map.
                let _ = client.incremental_assign(partitions);
                self.rejoin.store(true, Ordering::Relaxed);
            }
        } else {
            self.revoke(client, partitions);
        }
    }
}

impl Rebalance {
    /// Reads the commits of new partitions, and starts after them.
    fn assign(&self, client: &BaseConsumer<Self>, partitions: &TopicPartitionList) -> KafkaResult<()> {
        let committed = client.committed_offsets(partitions.clone(), COMMITTED_TIMEOUT)?;
        let marks = purge_marks(&self.connection, partitions, &self.local).unwrap_or_default();
        let mut assignment = TopicPartitionList::new();
        let mut assigned = Vec::new();
        for element in committed.elements() {
            element.error()?;
            let Some(source) = self.local.names.source(element.topic(), element.partition()) else {
                continue;
            };
            let progress = match element.offset() {
                Offset::Offset(offset) => {
                    // The client panics over metadata of other programs that is not UTF-8.
                    let metadata = catch_unwind(AssertUnwindSafe(|| element.metadata().to_owned()));
                    assignment.add_partition_offset(
                        element.topic(),
                        source.partition,
                        Offset::Offset(offset),
                    )?;
                    Progress::resume(Some((offset, &metadata.unwrap_or_default())))
                }
                _ => {
                    assignment.add_partition_offset(element.topic(), source.partition, Offset::Beginning)?;
                    Progress::resume(None)
                }
            };
            let mark = marks.get(&source).copied().unwrap_or(0);
            assigned.push((source, Partition::new(progress, mark)));
        }
        self.local.state().partitions.extend(assigned);
        client.incremental_assign(&assignment)?;
        // A partition that comes back is paused if it was when it left.
        client.resume(&assignment)?;
        self.local.wake();
        Ok(())
    }

    fn revoke(&self, client: &BaseConsumer<Self>, partitions: &TopicPartitionList) {
        // A commit that is being made must be on its way before the last one. One that waits for its answer is.
        let committing = self.committing.try_lock_for(REVOKE_WAIT);
        let mut state = self.local.state();
        let sources: Vec<Source> = partitions
            .elements()
            .iter()
            .filter_map(|element| self.local.names.source(element.topic(), element.partition()))
            .collect();
        if !client.assignment_lost() {
            let last = self.commit_list(&mut state, |source| sources.contains(source));
            if last.count() > 0 {
                // The request is on its way before the group is joined again; its answer is not waited for.
                let _ = client.commit(&last, CommitMode::Async);
            }
        }
        drop(committing);
        let revoked: Vec<InFlight> = sources.into_iter().flat_map(|source| state.revoke(source)).collect();
        drop(state);
        let _ = client.incremental_unassign(partitions);
        if !revoked.is_empty() {
            let _ = self.revoked.send(revoked);
        }
        self.local.commits.notify_waiters();
        self.local.wake();
    }

    /// Commits of the selected partitions that have changed; marks them as sent.
    fn commit_list(&self, state: &mut QueueState, select: impl Fn(&Source) -> bool) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (source, partition) in &mut state.partitions {
            let Some(watermark) = partition.progress.watermark() else { continue };
            if partition.version == partition.sent || !select(source) {
                continue;
            }
            let topic = self.local.names.topic(source.topic);
            let mut element = list.add_partition(topic, source.partition);
            if element.set_offset(Offset::Offset(watermark)).is_ok() {
                if !self.without_metadata.load(Ordering::Relaxed) {
                    element.set_metadata(partition.progress.metadata());
                }
                partition.sent = partition.version;
            }
        }
        list
    }

    /// Commits what has changed, and waits for the answer. Blocks.
    pub(crate) fn commit(&self, client: &BaseConsumer<Self>) -> KafkaResult<()> {
        let committing = self.committing.lock();
        let (list, versions) = {
            let mut state = self.local.state();
            let list = self.commit_list(&mut state, |_| true);
            let sent = state.partitions.iter().filter(|(_, partition)| partition.sent > partition.committed);
            let versions: Vec<_> =
                sent.map(|(source, partition)| (*source, partition.epoch, partition.sent)).collect();
            (list, versions)
        };
        if list.count() == 0 {
            return Ok(());
        }
        let result = client.commit(&list, CommitMode::Sync);
        drop(committing);
        let mut state = self.local.state();
        for (source, epoch, version) in versions {
            if let Some(partition) = state.partitions.get_mut(&source).filter(|found| found.epoch == epoch) {
                match &result {
                    Ok(()) => partition.committed = version,
                    Err(_) => partition.sent = partition.committed,
                }
            }
        }
        drop(state);
        self.local.commits.notify_waiters();
        if let Err(error) = &result
            && error.rdkafka_error_code() == Some(RDKafkaErrorCode::OffsetMetadataTooLarge)
            && !self.without_metadata.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(queue = %self.local.queue, "the server's offset.metadata.max.bytes is too small: after a lost \
                worker, what was settled above the watermark is redelivered");
        }
        result
    }

    /// Waits until something has to be committed, or for a while.
    pub(crate) fn wait_for_changes(&self) {
        let mut has_changed = self.has_changed.lock();
        if !*has_changed {
            self.changes.wait_for(&mut has_changed, CHANGES_WAIT);
        }
        *has_changed = false;
    }

    pub(crate) fn announce_changes(&self) {
        *self.has_changed.lock() = true;
        self.changes.notify_one();
    }
}

/// Purge marks of these partitions. Blocks.
pub(crate) fn purge_marks(
    connection: &Connection,
    partitions: &TopicPartitionList,
    local: &LocalQueue,
) -> KafkaResult<HashMap<Source, i64>> {
    let marks = connection.marks.committed_offsets(partitions.clone(), COMMITTED_TIMEOUT)?;
    Ok(by_source(local, &marks))
}

/// Offsets of a list by the partitions of a queue.
pub(crate) fn by_source(local: &LocalQueue, list: &TopicPartitionList) -> HashMap<Source, i64> {
    let elements = list.elements();
    let offset = |element: &TopicPartitionListElem<'_>| {
        let source = local.names.source(element.topic(), element.partition())?;
        let Offset::Offset(offset) = element.offset() else { return None };
        Some((source, offset))
    };
    elements.iter().filter_map(offset).collect()
}
