//! Receiving: messages are noted in the ledger, and then leased.

use crate::{Backend, Entry as _, InFlight, LedgerError, LocalQueue, Settlement, State as _, settle};
use crawlway_broker::{
    DeadLetterCause, Death, Delivery, Failure, Receipt, Timestamp, history::History, suspects::Slots,
};
use crawlway_store::ledger::{self, TakeOutcome};
use std::sync::Arc;

/// Messages that are being taken: ready again when it is dropped.
struct Taking<'a, B: Backend> {
    local: &'a LocalQueue<B>,
    entries: Vec<B::Entry>,
    count: usize,
}

impl<B: Backend> Taking<'_, B> {
    fn end(&mut self, state: &mut B::State) {
        state.deliveries().taking -= std::mem::take(&mut self.count);
    }
}

impl<B: Backend> Drop for Taking<'_, B> {
    fn drop(&mut self) {
        if self.count > 0 {
            let (mut state, now) = (self.local.state(), Timestamp::now());
            self.end(&mut state);
            for entry in self.entries.drain(..).rev() {
                state.put_back(entry, now);
            }
        }
        self.local.changed.notify_waiters();
    }
}

pub(crate) async fn take<B: Backend>(
    engine: &Arc<B>,
    local: &Arc<LocalQueue<B>>,
    candidates: Vec<B::Entry>,
    max: usize,
) -> Result<Vec<Delivery>, LedgerError> {
    let mut taking = Taking { local, count: candidates.len(), entries: candidates };
    let keys: Vec<_> = taking.entries.iter().map(|entry| entry.key(&local.queue)).collect();
    let outcomes = engine.ledger.take(&keys).await?;
    // From here on nothing waits, so that a cancelled call cannot lose a message.
    let (now, mut slots) = (Timestamp::now(), Slots::new(max));
    let (mut deliveries, mut returned) = (Vec::with_capacity(keys.len()), Vec::new());
    let (mut busy, mut deaths) = (Vec::new(), Vec::new());
    let mut state = local.state();
    taking.end(&mut state);
    let (lease, max_crashes) = {
        let spec = &state.deliveries().spec;
        (spec.lease, spec.max_solo_crashes)
    };
    for ((mut entry, outcome), key) in taking.entries.drain(..).zip(outcomes).zip(keys) {
        if !state.is_assigned(&entry) {
            returned.push(key);
            continue;
        }
        let mut history = entry.history().clone();
        let death = match outcome {
            TakeOutcome::Taken(noted) => {
                merge(&mut history, noted);
                *entry.losses() = history.losses;
                if history.solo_crashes >= max_crashes {
                    Some(Some(Death::after_solo_crashes(history.solo_crashes)))
                } else if slots.take(history.losses) {
                    None
                } else {
                    // It stays noted: taking it again in the same session counts nothing.
                    state.put_back(entry, now);
                    continue;
                }
            }
            TakeOutcome::Busy { until } => {
                busy.push((entry, until));
                continue;
            }
            // Its dead-lettering goes on, and the ledger has its cause; or only its settling.
            TakeOutcome::Dead(_) => {
                Some(Some(Death { cause: DeadLetterCause::Refused, reason: String::new() }))
            }
            TakeOutcome::Closed => Some(None),
            TakeOutcome::Fenced => continue,
        };
        let (tag, until, settling) = (state.deliveries().number(), now + lease, death.is_some());
        match death {
            Some(death) => deaths.push((tag, death)),
            None => deliveries.push(Delivery {
                receipt: Receipt { queue: local.queue.clone(), epoch: engine.epoch, tag },
                message: entry.message().clone(),
                attempt: history.attempt,
                losses: history.losses,
                last_error: history.last_error.clone(),
                replays: history.replays,
                lease_until: until,
            }),
        }
        state.deliveries().in_flight.insert(tag, InFlight { entry, history, until, settling });
    }
    drop(state);
    local.keeper.notify_one();
    if !returned.is_empty() || !busy.is_empty() || !deaths.is_empty() {
        let (engine, local) = (engine.clone(), local.clone());
        let runtime = engine.runtime.clone();
        runtime.spawn(async move {
            engine.ledger.settle(returned, &Settlement::Returned).await;
            engine.put_off(&local, busy).await;
            for (tag, death) in deaths {
                settle::bury_later(&*engine, &local, tag, death).await;
            }
        });
    }
    Ok(deliveries)
}

/// Adds what the ledger has noted about a message to its history.
fn merge(history: &mut History, noted: ledger::History) {
    let failure = |failure: ledger::Failure| Failure { error: failure.error, at: failure.at };
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
