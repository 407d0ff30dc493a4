//! Receiving: polls in tasks of their own, and calls that take what they bring.
//!
//! ```text
//!  receiver waits ─▶ poll ─┬─ due ─▶ ready ─▶ noted in the ledger ─▶ leased
//!                          ├─ not due: hidden until then
//!                          └─ purged: deleted
//! ```

use crate::{
    connection::seconds,
    engine::Engine,
    local_queue::{Entry, LocalQueue},
    options::MAX_VISIBILITY,
    wire::Received,
};
use crawlway_broker::{BrokerError, Delivery, QueueName, Timestamp};
use crawlway_broker_ledger::{Backend as _, Entry as _, Settlement};
use std::{sync::Arc, time::Duration};

/// Minimum wait: a shorter one would end before the server could answer.
const MIN_WAIT: Duration = Duration::from_millis(25);
/// Delay after a poll that failed.
const POLL_RETRY_DELAY: Duration = Duration::from_millis(500);

/// A receiver that waits, as part of the demand for polls.
struct Demand<'a> {
    local: &'a LocalQueue,
    count: usize,
}

impl<'a> Demand<'a> {
    fn new(local: &'a LocalQueue, count: usize) -> Self {
        local.state().demand += count;
        Self { local, count }
    }
}

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        self.local.state().demand -= self.count;
        self.local.keeper.notify_one();
    }
}

impl Engine {
    /// Starts polls, as receivers wait for messages.
    pub(crate) fn start_polls(self: &Arc<Self>, local: &Arc<LocalQueue>) {
        let mut state = local.state();
        while !self.is_closed() && state.polling < state.wanted_polls(self.connection.options.pollers) {
            state.polling += 1;
            let (engine, local) = (self.clone(), local.clone());
            self.runtime.spawn(async move { engine.poll(&local).await });
        }
    }

    /// Polls while receivers wait. Never cancelled, so that what it receives is not lost.
    async fn poll(self: Arc<Self>, local: &Arc<LocalQueue>) {
        loop {
            let batch = {
                let mut state = local.state();
                if self.is_closed() || state.polling > state.wanted_polls(self.connection.options.pollers) {
                    state.polling -= 1;
                    break;
                }
                state.batch()
            };
            let now = Timestamp::now();
            match self.connection.poll(&local.url, batch).await {
                Ok(received) => self.accept(local, received, now).await,
                Err(failure) => {
                    tracing::debug!(queue = %local.queue, %failure, "polling");
                    if failure.is_missing_queue() {
                        tracing::warn!(queue = %local.queue, "its SQS queue does not exist any more");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(POLL_RETRY_DELAY) => {}
                        () = self.closing.notified() => {}
                    }
                }
            }
        }
        local.wake();
    }

    /// Buffers received messages that are due, hides those that are not, and deletes those that were purged.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
        received: Vec<Received>,
        since: Timestamp,
    ) {
        let hidden_until = since + self.connection.options.visibility;
        let (mut early, mut purged) = (Vec::new(), Vec::new());
        {
            let (mut state, now) = (local.state(), Timestamp::now());
            for received in received {
                if received.sent < state.purged_before && !state.kept.contains(&received.message_id) {
                    purged.push(received.handle);
                    state.purged_hidden = state.purged_hidden.saturating_sub(1);
                    continue;
                }
                if let Some(due) = received.history.not_before.filter(|due| *due > now) {
                    early.push((received.handle, seconds(due.since(now).min(MAX_VISIBILITY))));
                    continue;
                }
                let losses = received.history.losses;
                let (received, received_at) = (Arc::new(received), now);
                let entry = Entry { received, received_at, hidden_until, losses, is_taken: false };
                state.deliveries.ready.push_back(entry);
            }
        }
        local.wake();
        if !early.is_empty() {
            self.connection.change_visibility(&local.url, &early).await;
        }
        if !purged.is_empty() {
            self.connection.delete(&local.url, &purged).await;
        }
    }

    /// Cancel-safe: messages that are not returned go back to the ready ones.
    pub(crate) async fn receive(
        self: &Arc<Self>,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let local = self.local_queue(queue)?;
        if max == 0 {
            return Ok(Vec::new());
        }
        let deadline = tokio::time::sleep(wait.max(MIN_WAIT));
        tokio::pin!(deadline);
        let _demand = Demand::new(&local, max);
        loop {
            let changed = local.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.check_open()?;
            let entries = local.state().candidates(max, Timestamp::now());
            if !entries.is_empty() {
                let deliveries = self.take(&local, entries, max).await?;
                if !deliveries.is_empty() {
                    return Ok(deliveries);
                }
                continue;
            }
            self.start_polls(&local);
            tokio::select! {
                () = &mut changed => {}
                () = &mut deadline => {
                    // An empty result would hide that no message could have come.
                    self.check_reachable()?;
                    return Ok(Vec::new());
                }
            }
        }
    }

    /// Makes messages visible again, and settles those that are noted in the ledger.
    pub(crate) async fn make_visible(
        &self,
        local: &LocalQueue,
        entries: Vec<Entry>,
        settlement: &Settlement,
    ) {
        let taken = entries.iter().filter(|entry| entry.is_taken).map(|entry| entry.key(&local.queue));
        self.ledger.settle(taken.collect(), settlement).await;
        let visible: Vec<_> = entries.iter().map(|entry| (entry.received.handle.clone(), 0)).collect();
        self.connection.change_visibility(&local.url, &visible).await;
    }
}
