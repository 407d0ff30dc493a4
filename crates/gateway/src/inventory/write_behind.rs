//! Write-behind of accepted URLs: their records are written in the background, in batches, with retries.

use super::Inner;
use crawlway_clock::Backoff;
use crawlway_store::{StoreError, inventory::RecordRequest};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::timeout};

/// Time to collect a batch. Every request is written within 200 ms while the store responds.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Maximum number of requests per write.
const BATCH: usize = 200;
/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Back-off after failed writes.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
/// Time for the last write at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Requests that are not written yet, the oldest dropped first.
#[derive(Debug)]
pub(super) struct WriteBehind {
    capacity: usize,
    state: Mutex<State>,
    /// Signals that all requests are written.
    written: Notify,
    /// Wakes the writer at shutdown.
    ending: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<RecordRequest>,
    /// Whether the writer task runs.
    running: bool,
    ending: bool,
    dropped: u64,
}

impl WriteBehind {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            state: Mutex::default(),
            written: Notify::new(),
            ending: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Drops the oldest requests beyond the capacity: workers create their records when they start them.
    fn trim(&self, state: &mut State) {
        while state.pending.len() > self.capacity {
            state.pending.pop_front();
            state.dropped += 1;
            if state.dropped == 1 {
                let capacity = self.capacity;
                tracing::warn!(
                    capacity,
                    "too many accepted URLs wait for their records; workers create the oldest ones"
                );
            }
        }
    }
}

/// Schedules the write of a request.
pub(super) fn schedule(inner: &Arc<Inner>, request: RecordRequest) {
    let writes = &inner.writes;
    let mut state = writes.state();
    state.pending.push_back(request);
    writes.trim(&mut state);
    if !std::mem::replace(&mut state.running, true) {
        tokio::spawn(write_all(inner.clone()));
    }
}

/// Waits until all requests are written, up to a timeout.
pub(super) async fn flush(inner: &Inner) {
    let writes = &inner.writes;
    writes.state().ending = true;
    writes.ending.notify_one();
    let all_written = async {
        loop {
            let written = writes.written.notified();
            tokio::pin!(written);
            written.as_mut().enable();
            if !writes.state().running {
                return;
            }
            written.await;
        }
    };
    if timeout(FLUSH_TIMEOUT, all_written).await.is_err() {
        let left = writes.state().pending.len();
        tracing::warn!(
            left,
            "records of accepted URLs were not written before shutdown; workers create them"
        );
    }
}

/// Writes batches until no request is pending.
async fn write_all(inner: Arc<Inner>) {
    let writes = &inner.writes;
    let mut failures = 0;
    loop {
        if !writes.state().ending {
            let delay = BACKOFF.delay(failures).max(BATCH_DELAY);
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = writes.ending.notified() => {}
            }
        }
        let batch: Vec<RecordRequest> = {
            let mut state = writes.state();
            let count = state.pending.len().min(BATCH);
            if count == 0 {
                state.running = false;
                state.dropped = 0;
                writes.written.notify_waiters();
                return;
            }
            state.pending.drain(..count).collect()
        };
        match write(&inner, &batch).await {
            Ok(()) => failures = 0,
            Err(error @ StoreError::Invalid { .. }) => {
                tracing::error!(%error, urls = batch.len(), "records of accepted URLs were refused");
            }
            Err(error) => {
                tracing::warn!(%error, urls = batch.len(), "writing records of accepted URLs failed; retrying");
                let mut state = writes.state();
                batch.into_iter().rev().for_each(|request| state.pending.push_front(request));
                writes.trim(&mut state);
                if state.ending {
                    tracing::warn!(left = state.pending.len(), "shutting down; workers create the records");
                    state.pending.clear();
                }
                failures += 1;
            }
        }
    }
}

async fn write(inner: &Inner, batch: &[RecordRequest]) -> Result<(), StoreError> {
    let records = inner.records.get().ok_or_else(super::not_connected)?;
    let now = inner.clock.now();
    let written = timeout(WRITE_TIMEOUT, records.mark_queued(batch, now)).await;
    written.unwrap_or_else(|_| Err(super::timed_out(WRITE_TIMEOUT)))
}
