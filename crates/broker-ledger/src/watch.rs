//! Tasks of a broker handle: they keep the session, watch for changes by other processes, and remove what is done.

use crate::{Backend, Entry as _, LocalQueue, State as _};
use std::{sync::Arc, time::Instant};

/// Keeps the session and watches for changes by other processes, until the broker is closed.
pub(crate) async fn watch<B: Backend>(engine: Arc<B>) {
    let in_flight = |local: &Arc<LocalQueue<B>>| {
        let mut state = local.state();
        let held = state.deliveries().in_flight.values();
        held.map(|held| held.entry.key(&local.queue)).collect::<Vec<_>>()
    };
    let mut last_cleanup = Instant::now();
    while !engine.is_closed() {
        engine.ledger.keep_session(|| engine.queues.all().iter().flat_map(in_flight).collect()).await;
        if let Some(paused) = engine.ledger.watch_pauses().await {
            for local in engine.queues.all() {
                local.set_paused(paused.contains(local.queue.as_str()));
            }
        }
        let is_cleanup = last_cleanup.elapsed() > engine.cleanup_interval;
        if is_cleanup {
            last_cleanup = Instant::now();
            engine.ledger.purge_expired().await;
        }
        engine.watch_server(is_cleanup).await;
        tokio::select! {
            () = tokio::time::sleep(engine.ledger.watch_interval()) => {}
            () = engine.closing.notified() => {}
        }
    }
}

/// Removes done messages from the ledger, until the broker is closed.
pub(crate) async fn remove_done<B: Backend>(engine: Arc<B>) {
    while !engine.is_closed() {
        tokio::select! {
            () = engine.ledger.done_removed() => {}
            () = engine.closing.notified() => {}
        }
    }
}
