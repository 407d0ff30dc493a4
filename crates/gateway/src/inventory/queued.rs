//! Accepted URLs on their way into the records: written in the background, together, and again after an outage.

use super::Inner;
use crawlway_store::{StoreError, inventory::Request};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::timeout};

/// For so long requests are gathered before they are written. Everything is written within 200 ms while the store answers.
const GATHER: Duration = Duration::from_millis(50);
/// How many requests are written with one call.
const BATCH: usize = 200;
/// A write that has not ended by then has failed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait after the first failed write, and at most after any later one.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How long the end of the process waits for the last write.
const LAST_WRITE: Duration = Duration::from_secs(3);

/// The requests that are not written yet, the oldest dropped first when there are too many.
#[derive(Debug)]
pub(super) struct QueuedWrites {
    capacity: usize,
    state: Mutex<State>,
    /// Wakes those who wait for the last write.
    written: Notify,
    /// Wakes the task, since the process is to end.
    ending: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: VecDeque<Request>,
    /// A task writes them.
    running: bool,
    ending: bool,
    dropped: u64,
}

impl QueuedWrites {
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

    /// Keeps requests, and drops the oldest beyond the capacity: the worker makes their records when it begins them.
    fn keep(&self, state: &mut State) {
        while state.pending.len() > self.capacity {
            state.pending.pop_front();
            state.dropped += 1;
            if state.dropped == 1 {
                let capacity = self.capacity;
                tracing::warn!(
                    capacity,
                    "too many URLs wait to be recorded as queued; workers record the oldest when they begin them"
                );
            }
        }
    }
}

/// Has a request written soon.
pub(super) fn write_soon(inner: &Arc<Inner>, request: Request) {
    let writes = &inner.queued;
    let mut state = writes.state();
    state.pending.push_back(request);
    writes.keep(&mut state);
    if !std::mem::replace(&mut state.running, true) {
        tokio::spawn(write_all(inner.clone()));
    }
}

/// Returns when everything is written, or cannot be in the time that is left.
pub(super) async fn flush(inner: &Inner) {
    let writes = &inner.queued;
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
    if timeout(LAST_WRITE, all_written).await.is_err() {
        let left = writes.state().pending.len();
        tracing::warn!(
            left,
            "accepted URLs could not be recorded as queued; workers record them when they begin them"
        );
    }
}

/// Writes until nothing is left.
async fn write_all(inner: Arc<Inner>) {
    let writes = &inner.queued;
    let mut delay = RETRY_DELAY.0;
    let mut rest = GATHER;
    loop {
        if !writes.state().ending {
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = writes.ending.notified() => {}
            }
        }
        let batch: Vec<Request> = {
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
            Ok(()) => (delay, rest) = (RETRY_DELAY.0, GATHER),
            Err(error @ StoreError::Invalid { .. }) => {
                tracing::error!(%error, urls = batch.len(), "accepted URLs cannot be recorded as queued");
            }
            Err(error) => {
                tracing::warn!(%error, urls = batch.len(), "accepted URLs are not recorded as queued yet; trying again");
                let mut state = writes.state();
                batch.into_iter().rev().for_each(|request| state.pending.push_front(request));
                writes.keep(&mut state);
                if state.ending {
                    tracing::warn!(left = state.pending.len(), "workers record them when they begin them");
                    state.pending.clear();
                }
                rest = delay;
                delay = (delay * 2).min(RETRY_DELAY.1);
            }
        }
    }
}

async fn write(inner: &Inner, batch: &[Request]) -> Result<(), StoreError> {
    let records = inner.records.get().ok_or_else(super::not_there)?;
    let now = inner.clock.now();
    let written = timeout(WRITE_TIMEOUT, records.mark_queued(batch, now)).await;
    written.unwrap_or_else(|_| Err(super::late(WRITE_TIMEOUT)))
}
