//! Receiving: waits for ready records, notes them in the ledger and leases them to the caller.

use crate::{
    engine::{Engine, message_key},
    error::Failure,
    local_queue::{Entry, InFlight, LocalQueue},
};
use crawlway_broker::{BrokerError, DeadLetterCause, Death, Delivery, QueueName, Timestamp, suspects::Slots};
use crawlway_broker_ledger::{Settlement, TakeOutcome};
use std::{sync::Arc, time::Duration};

/// Minimum wait: a shorter one would end before the server could answer.
const MIN_WAIT: Duration = Duration::from_millis(25);

/// Records that are being taken: returned to the ready records when it is dropped.
struct Taking<'a> {
    local: &'a LocalQueue,
    entries: Vec<Entry>,
    count: usize,
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut state = self.local.state();
        state.end_take(self.count);
        let now = Timestamp::now();
        for entry in self.entries.drain(..).rev() {
            state.put(entry, now, true);
        }
        drop(state);
        self.local.changed.notify_waiters();
    }
}

impl Engine {
    /// Cancel-safe: records that are not returned go back to the ready ones.
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
        let consumer = self.start_consumer(&local)?;
        let deadline = tokio::time::sleep(wait.max(MIN_WAIT));
        tokio::pin!(deadline);
        loop {
            let changed = local.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.check_open()?;
            let now = Timestamp::now();
            let (entries, next) = {
                let mut state = local.state();
                state.advance(now);
                let entries = state.candidates(max);
                let next = if entries.is_empty() { state.next_time() } else { None };
                (entries, next)
            };
            if !entries.is_empty() {
                let taking = Taking { local: &local, count: entries.len(), entries };
                let deliveries = self.take(&local, taking, max).await?;
                consumer.update(&local);
                if !deliveries.is_empty() {
                    local.keeper.notify_one();
                    return Ok(deliveries);
                }
                continue;
            }
            // A lease may end or a record become due before.
            let sleep =
                next.map_or(Duration::from_secs(1), |time| time.since(now)).max(Duration::from_millis(1));
            tokio::select! {
                () = &mut changed => {}
                () = tokio::time::sleep(sleep) => {}
                () = &mut deadline => {
                    // An empty result would hide that no message could have come.
                    self.check_reachable()?;
                    return Ok(Vec::new());
                }
            }
        }
    }

    pub(crate) fn check_reachable(&self) -> Result<(), Failure> {
        self.check_open()?;
        if self.connection.health.is_down() {
            return Err(Failure::Unavailable(self.connection.unreachable()));
        }
        Ok(())
    }

    /// Notes records in the ledger, and leases those that may run.
    async fn take(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
        mut taking: Taking<'_>,
        max: usize,
    ) -> Result<Vec<Delivery>, Failure> {
        let keys: Vec<_> =
            taking.entries.iter().map(|entry| message_key(&local.queue, &entry.record)).collect();
        let outcomes = self.ledger.take(&keys).await?;
        // From here on nothing waits, so that a cancelled call cannot lose a record.
        let (now, mut slots) = (Timestamp::now(), Slots::new(max));
        let (mut deliveries, mut returned, mut deaths) = (Vec::new(), Vec::new(), Vec::new());
        let mut state = local.state();
        state.end_take(std::mem::take(&mut taking.count));
        let (lease, max_crashes) = (state.spec.lease, state.spec.max_solo_crashes);
        for ((mut entry, outcome), key) in taking.entries.drain(..).zip(outcomes).zip(keys) {
            if state.partition_of(&entry).is_none() {
                returned.push(key);
                continue;
            }
            match outcome {
                TakeOutcome::Taken(ledger) => {
                    let mut history = entry.record.history.clone();
                    history.losses = history.losses.saturating_add(ledger.losses);
                    history.solo_crashes = history.solo_crashes.saturating_add(ledger.solo_crashes);
                    entry.losses = history.losses;
                    if history.solo_crashes >= max_crashes {
                        let tag = state.number();
                        let until = now + lease;
                        let crashes = history.solo_crashes;
                        state.in_flight.insert(tag, InFlight { entry, history, until, settling: true });
                        deaths.push((tag, Some(Death::after_solo_crashes(crashes))));
                    } else if slots.take(entry.losses) {
                        let (tag, until) = (state.number(), now + lease);
                        deliveries.push(Delivery {
                            receipt: self.receipt(&local.queue, tag),
                            message: entry.record.message.clone(),
                            attempt: history.attempt,
                            losses: history.losses,
                            last_error: history.last_error.clone(),
                            replays: history.replays,
                            lease_until: until,
                        });
                        state.in_flight.insert(tag, InFlight { entry, history, until, settling: false });
                    } else {
                        // It stays noted: taking it again in the same session counts nothing.
                        state.put(entry, now, true);
                    }
                }
                TakeOutcome::Busy { until } => state.hold(entry, until.max(now + Duration::from_millis(100))),
                // Its dead-lettering goes on, or only its settling.
                TakeOutcome::Dead(_) | TakeOutcome::Closed => {
                    let tag = state.number();
                    let history = entry.record.history.clone();
                    // The ledger has its cause.
                    let resumed = Death { cause: DeadLetterCause::Refused, reason: String::new() };
                    let death = (outcome != TakeOutcome::Closed).then_some(resumed);
                    state
                        .in_flight
                        .insert(tag, InFlight { entry, history, until: now + lease, settling: true });
                    deaths.push((tag, death));
                }
                TakeOutcome::Fenced => {}
            }
        }
        drop(state);
        if !returned.is_empty() || !deaths.is_empty() {
            let (engine, local) = (self.clone(), local.clone());
            self.runtime.spawn(async move {
                engine.ledger.settle(returned, &Settlement::Returned).await;
                for (tag, death) in deaths {
                    engine.bury_later(&local, tag, death).await;
                }
            });
        }
        Ok(deliveries)
    }
}
