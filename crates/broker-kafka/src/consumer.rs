//! Consumer of a queue: a thread that polls, one that commits, and back-pressure.
//!
//! States of an assigned partition:
//!
//! ```text
//!            assign: commit is read          full or max_gap
//!  (none) ─────────────────────────▶ reading ───────────────▶ paused
//!     ▲                                │  ▲                      │
//!     └── revoke: last commit is sent ─┘  └──── half empty ──────┘
//! ```
//!
//! Polling never stops, since a member that does not poll holds up the group. The callbacks are in `rebalance.rs`.

use crate::{
    connection::Connection,
    local_queue::{InFlight, LocalQueue, QueueState},
    rebalance::Rebalance,
    watermark::MAX_GAP,
    wire,
};
use crawlway_broker::Timestamp;
use parking_lot::Mutex;
use rdkafka::{
    Message as _, TopicPartitionList,
    config::FromClientConfigAndContext as _,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, KafkaResult},
    message::BorrowedMessage,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

/// Maximum time of one poll, after which the thread looks whether it has to stop.
const POLL: Duration = Duration::from_millis(100);
/// Maximum number and size of the records that are buffered before receivers are woken.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Work of a thread, until it is stopped.
type Work = fn(&BaseConsumer<Rebalance>, &LocalQueue, &AtomicBool);

/// Running consumer of a queue.
pub(crate) struct Consumer {
    pub(crate) client: Arc<BaseConsumer<Rebalance>>,
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}

impl Consumer {
    /// Starts the consumer of a queue.
    pub(crate) fn start(
        connection: &Arc<Connection>,
        local: &Arc<LocalQueue>,
        revoked: UnboundedSender<Vec<InFlight>>,
    ) -> KafkaResult<Self> {
        let context = Rebalance::new(local.clone(), connection.clone(), revoked);
        let config = connection.options.consumer(&local.names.group);
        let client = Arc::new(BaseConsumer::from_config_and_context(&config, context)?);
        subscribe(&client, local)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (name, work) in [("kafka-poll", poll as Work), ("kafka-commit", commit as Work)] {
            let (client, stop, local) = (client.clone(), stop.clone(), local.clone());
            let thread = std::thread::Builder::new().name(name.to_owned());
            let thread = thread.spawn(move || work(&client, &local, &stop));
            threads.push(thread.map_err(|error| KafkaError::ClientCreation(error.to_string()))?);
        }
        Ok(Self { client, stop, threads: Mutex::new(threads) })
    }

    /// Has what has changed in assigned partitions committed, and resumes or pauses them.
    pub(crate) fn update(&self, local: &LocalQueue) {
        update_flow(&self.client, local, &mut local.state());
        self.client.context().announce_changes();
    }

    /// Ends polling; the group is left without another commit when the last reference is gone.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until the group is left. Blocks.
    pub(crate) fn join(&self) {
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

fn subscribe(client: &BaseConsumer<Rebalance>, local: &LocalQueue) -> KafkaResult<()> {
    client.subscribe(&[&local.names.main, &local.names.wait])
}

/// Polls until the consumer is stopped, and leaves the group.
fn poll(client: &BaseConsumer<Rebalance>, local: &LocalQueue, stop: &AtomicBool) {
    let context = client.context();
    let max_gap = max_gap(context);
    while !stop.load(Ordering::Relaxed) {
        let (mut count, mut bytes) = (0, 0);
        // What has arrived is buffered at once, and receivers are woken once.
        while count < BATCH && bytes < BATCH_BYTES {
            match client.poll(if count == 0 { POLL } else { Duration::ZERO }) {
                Some(Ok(record)) => {
                    (count, bytes) = (count + 1, bytes + record.payload_len());
                    if !accept(local, &record, max_gap) {
                        break;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(queue = %local.queue, %error, "consuming");
                    context.connection.health.record(&error);
                    break;
                }
                None => break,
            }
        }
        if count > 0 {
            update_flow(client, local, &mut local.state());
            context.connection.health.set_down(false);
            local.changed.notify_waiters();
        }
        if context.rejoin.swap(false, Ordering::Relaxed) {
            client.unsubscribe();
            if let Err(error) = subscribe(client, local) {
                tracing::error!(queue = %local.queue, %error, "subscribing again");
            }
        }
    }
    client.unsubscribe();
    let left = Instant::now();
    while !local.state().partitions.is_empty() && left.elapsed() < Duration::from_secs(2) {
        client.poll(Duration::from_millis(20));
    }
}

/// Buffers a received record. `false` if its partition has to be paused before the next one.
fn accept(local: &LocalQueue, record: &BorrowedMessage<'_>, max_gap: u64) -> bool {
    let Some(source) = local.names.source(record.topic(), record.partition()) else { return true };
    let record = wire::decode(source, record, &local.names);
    let mut state = local.state();
    if !state.accept(record, Timestamp::now()) {
        tracing::warn!(queue = %local.queue, "the topic was made anew; its partition starts over");
    }
    state.partitions.get(&source).is_none_or(|partition| !partition.should_pause(max_gap))
}

/// Commits what has changed until the consumer is stopped. In a thread of its own, since only a call that waits returns its result.
fn commit(client: &BaseConsumer<Rebalance>, local: &LocalQueue, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        client.context().wait_for_changes();
        if let Err(error) = client.context().commit(client) {
            tracing::debug!(queue = %local.queue, %error, "a commit failed and is repeated");
            std::thread::sleep(POLL);
        }
    }
}

fn max_gap(context: &Rebalance) -> u64 {
    u64::from(context.connection.options.max_gap.min(MAX_GAP))
}

/// Pauses partitions that are full, and resumes those that are not any more.
fn update_flow(client: &BaseConsumer<Rebalance>, local: &LocalQueue, state: &mut QueueState) {
    let max_gap = max_gap(client.context());
    for (source, partition) in &mut state.partitions {
        let pause = partition.should_pause(max_gap);
        if pause != partition.is_paused {
            let mut list = TopicPartitionList::new();
            list.add_partition(local.names.topic(source.topic), source.partition);
            let _ = if pause { client.pause(&list) } else { client.resume(&list) };
            partition.is_paused = pause;
            // It may have records that block it.
            local.keeper.notify_one();
        }
    }
}
