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
    error::Failure,
    local_queue::{Entry, InFlight, LocalQueue},
    options::MAX_VISIBILITY,
    wire::Received,
};
use crawlway_broker::{
    BrokerError, DeadLetterCause, Death, Delivery, QueueName, Receipt, Timestamp, history::History,
    suspects::Slots,
};
use crawlway_broker_ledger::{MessageKey, Settlement, TakeOutcome};
use crawlway_store::ledger;
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

/// Messages that are being taken: returned to the ready ones when it is dropped.
struct Taking<'a> {
    local: &'a LocalQueue,
    entries: Vec<Entry>,
    count: usize,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut state = self.local.state();
        state.end_take(self.count);
        for entry in self.entries.drain(..).rev() {
            state.ready.push_front(entry);
        }
        drop(state);
        self.local.wake();
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
                state.ready.push_back(Entry { received, received_at, hidden_until, losses, is_taken: false });
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
                let taking = Taking { local: &local, count: entries.len(), entries };
                let deliveries = self.take(&local, taking, max).await?;
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

    /// Notes messages in the ledger, and leases those that may run.
    async fn take(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
        mut taking: Taking<'_>,
        max: usize,
    ) -> Result<Vec<Delivery>, Failure> {
        let keys: Vec<MessageKey> = taking.entries.iter().map(|entry| entry.key(&local.queue)).collect();
        for entry in &mut taking.entries {
            entry.is_taken = true;
        }
        let outcomes = self.ledger.take(&keys).await?;
        // From here on nothing waits, so that a cancelled call cannot lose a message.
        let (now, mut slots) = (Timestamp::now(), Slots::new(max));
        let (mut deliveries, mut deaths, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = local.state();
        state.end_take(std::mem::take(&mut taking.count));
        let (lease, max_crashes) = (state.spec.lease, state.spec.max_solo_crashes);
        for (mut entry, outcome) in taking.entries.drain(..).zip(outcomes) {
            let mut history = entry.received.history.clone();
            let mut death = None;
            match outcome {
                TakeOutcome::Taken(noted) => {
                    merge(&mut history, noted);
                    entry.losses = history.losses;
                    if history.solo_crashes >= max_crashes {
                        death = Some(Some(Death::after_solo_crashes(history.solo_crashes)));
                    } else if !slots.take(entry.losses) {
                        state.ready.push_front(entry);
                        continue;
                    }
                }
                TakeOutcome::Busy { until } => {
                    let wait = until.since(now).clamp(Duration::from_secs(1), MAX_VISIBILITY);
                    busy.push((entry.received.handle.clone(), seconds(wait)));
                    continue;
                }
                // Its dead-lettering goes on, and the ledger has its cause; or only its deletion.
                TakeOutcome::Dead(_) => {
                    death = Some(Some(Death { cause: DeadLetterCause::Refused, reason: String::new() }));
                }
                TakeOutcome::Closed => death = Some(None),
                TakeOutcome::Fenced => continue,
            }
            let (tag, until) = (state.number(), now + lease);
            match death {
                Some(death) => deaths.push((tag, death)),
                None => deliveries.push(Delivery {
                    receipt: Receipt { queue: local.queue.clone(), epoch: self.epoch, tag },
                    message: entry.received.message.clone(),
                    attempt: history.attempt,
                    losses: history.losses,
                    last_error: history.last_error.clone(),
                    replays: history.replays,
                    lease_until: until,
                }),
            }
            let settling = deaths.last().is_some_and(|(dead, _)| *dead == tag);
            state.in_flight.insert(tag, InFlight { entry, history, until, settling });
        }
        drop(state);
        local.keeper.notify_one();
        if !busy.is_empty() || !deaths.is_empty() {
            let (engine, local) = (self.clone(), local.clone());
            self.runtime.spawn(async move {
                engine.connection.change_visibility(&local.url, &busy).await;
                for (tag, death) in deaths {
                    engine.bury_later(&local, tag, death).await;
                }
            });
        }
        Ok(deliveries)
    }

    /// Makes messages visible again that no receiver has, without counting anything.
    pub(crate) async fn hand_back(&self, local: &LocalQueue, entries: Vec<Entry>) {
        let taken = entries.iter().filter(|entry| entry.is_taken).map(|entry| entry.key(&local.queue));
        self.ledger.settle(taken.collect(), &Settlement::Returned).await;
        let visible: Vec<_> = entries.iter().map(|entry| (entry.received.handle.clone(), 0)).collect();
        self.connection.change_visibility(&local.url, &visible).await;
    }
}

/// Adds what the ledger has noted about a message to its history.
fn merge(history: &mut History, noted: ledger::History) {
    let failure =
        |failure: ledger::Failure| crawlway_broker::Failure { error: failure.error, at: failure.at };
    history.attempt = history.attempt.saturating_add(noted.attempts);
    history.losses = history.losses.saturating_add(noted.losses);
    history.solo_crashes = history.solo_crashes.saturating_add(noted.solo_crashes);
    if history.first_error.is_none() {
        history.first_error = noted.first_error.map(failure);
    }
    if let Some(last) = noted.last_error {
        history.last_error = Some(failure(last));
    }
}
