//! Session in the ledger: opened in the background, kept by heartbeats, and opened anew when it is lost.
//!
//! ```text
//!  (none) ── open ──▶ open ── heartbeat ──▶ open
//!     ▲                 │
//!     └── lost: what is in flight is taken again by the next one
//! ```

use crate::{
    engine::{Engine, message_key},
    error::Failure,
    local_queue::LocalQueue,
    rebalance::purge_marks,
};
use crawlway_store::ledger::SessionId;
use parking_lot::RwLock;
use rdkafka::TopicPartitionList;
use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Interval of looking for pauses and purges of other processes, and of attempts to open a session.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a call waits for the first session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of old rows that are removed at once.
const PURGE_ROWS: usize = 1000;

/// Session of a broker handle.
#[derive(Debug, Default)]
pub(crate) struct Session {
    current: RwLock<Option<SessionId>>,
    opened: Notify,
}

impl Session {
    pub(crate) fn current(&self) -> Option<SessionId> {
        self.current.read().clone()
    }

    /// The session; waits for it a while.
    pub(crate) async fn get(&self) -> Result<SessionId, Failure> {
        let wait = async {
            loop {
                let opened = self.opened.notified();
                tokio::pin!(opened);
                opened.as_mut().enable();
                if let Some(session) = self.current() {
                    return session;
                }
                opened.await;
            }
        };
        let missing = || Failure::Unavailable("the ledger of the Kafka queues is unavailable".to_owned());
        tokio::time::timeout(OPEN_TIMEOUT, wait).await.map_err(|_| missing())
    }

    /// Forgets a lost session, so that another one is opened.
    pub(crate) fn lost(&self, session: &SessionId) {
        let mut current = self.current.write();
        if current.as_ref() == Some(session) {
            *current = None;
        }
    }
}

impl Engine {
    /// Keeps the session and watches for changes by other processes, until the broker is closed.
    pub(crate) async fn watch(self: Arc<Self>) {
        let heartbeat = self.ledger.policy().session_lease / 3;
        let (mut last_heartbeat, mut last_purge) = (Instant::now(), Instant::now());
        while !self.is_closed() {
            match self.session.current() {
                None => self.open_session().await,
                Some(session) if last_heartbeat.elapsed() >= heartbeat => {
                    last_heartbeat = Instant::now();
                    if let Ok(false) = self.ledger.heartbeat(&session).await {
                        tracing::warn!("the session in the ledger was lost; another one is opened");
                        self.session.lost(&session);
                        continue;
                    }
                    for lost in self.ledger.reap_sessions().await.unwrap_or_default() {
                        tracing::warn!(
                            worker = lost.worker,
                            suspects = lost.suspects.len(),
                            "a worker was lost"
                        );
                    }
                }
                Some(_) => {}
            }
            self.watch_pauses().await;
            self.watch_purges().await;
            if self.connection.health.is_down() {
                let _ = self.blocking(|connection| connection.probe(Duration::from_secs(2))).await;
            }
            if last_purge.elapsed() > self.connection.options.cleanup_interval {
                last_purge = Instant::now();
                let _ = self.ledger.purge_expired(PURGE_ROWS).await;
                self.trim_wait_topics().await;
            }
            let interval = WATCH_INTERVAL.min(heartbeat);
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = self.closing.notified() => {}
            }
        }
    }

    /// Opens a session, and takes again what is in flight.
    async fn open_session(&self) {
        let session = SessionId(uuid::Uuid::now_v7().to_string());
        let worker = format!("{}, process {}", self.connection.options.client_id, std::process::id());
        if let Err(error) = self.ledger.open_session(&session, &worker).await {
            tracing::warn!(%error, "the ledger cannot be used; nothing is received");
            return;
        }
        for local in self.local_queues() {
            let held: Vec<_> = {
                let state = local.state();
                let in_flight = state.in_flight.values();
                in_flight.map(|delivery| message_key(&local.queue, &delivery.entry.record)).collect()
            };
            if !held.is_empty() {
                let _ = self.ledger.take(&session, &held).await;
            }
        }
        *self.session.current.write() = Some(session);
        self.session.opened.notify_waiters();
    }

    async fn watch_pauses(&self) {
        let changes = self.pause_changes.load(Ordering::Relaxed);
        let Ok(paused) = self.ledger.paused().await else { return };
        // What was read may be older than a pause or resume by this handle.
        if self.pause_changes.load(Ordering::Relaxed) != changes {
            return;
        }
        let paused: BTreeSet<String> = paused.into_iter().collect();
        for local in self.local_queues() {
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
        for local in self.local_queues() {
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
