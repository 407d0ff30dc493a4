//! Watcher: keeps the session in the ledger, looks for pauses by other processes, and probes a server that is down.

use crate::{engine::Engine, local_queue::LocalQueue};
use crawlway_broker_ledger::MessageKey;
use std::{sync::Arc, time::Instant};

impl Engine {
    /// Runs until the broker is closed.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut last_cleanup = Instant::now();
        while !self.is_closed() {
            self.ledger.keep_session(|| self.keys_in_flight()).await;
            if let Some(paused) = self.ledger.watch_pauses().await {
                for local in self.queues.all() {
                    self.set_paused(&local, paused.contains(local.queue.as_str()));
                }
            }
            if self.connection.is_down() {
                let _ = self.connection.probe().await;
            }
            if last_cleanup.elapsed() > self.connection.options.cleanup_interval {
                last_cleanup = Instant::now();
                self.ledger.purge_expired().await;
            }
            tokio::select! {
                () = tokio::time::sleep(self.ledger.watch_interval()) => {}
                () = self.closing.notified() => {}
            }
        }
    }

    fn keys_in_flight(&self) -> Vec<MessageKey> {
        let mut keys = Vec::new();
        for local in self.queues.all() {
            keys.extend(local.state().in_flight.values().map(|held| held.entry.key(&local.queue)));
        }
        keys
    }

    pub(crate) fn set_paused(self: &Arc<Self>, local: &Arc<LocalQueue>, paused: bool) {
        let changed = std::mem::replace(&mut local.state().is_paused, paused) != paused;
        if changed {
            self.start_polls(local);
            local.wake();
        }
    }
}
