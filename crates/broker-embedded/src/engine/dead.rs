//! Dead letters: listing, replay and drop; also purging a queue.

use super::{Engine, Request, commit::Effect, state::State};
use crate::{
    index::{MessageState, Slot},
    journal::Event,
    record::{Kind, Losses, OWN_POSITION, StoredMessage},
};
use crawlway_broker::{
    BrokerError, DeadLetter, DeadLetterCause, DeadLetterFilter, DeadLetterId, DeadLetterPage, PublishError,
    QueueName, Timestamp,
};

/// Limits of a batch of dead letters, so that the state is unlocked in between.
const MAX_BATCH_LEN: usize = 256;
const MAX_BATCH_BYTES: u64 = 4 << 20;

/// A batch of dead letters to replay.
#[derive(Debug)]
pub(crate) struct ReplayBatch {
    pub(crate) request: Request,
    /// Pagination cursor; `None` at the end.
    pub(crate) next: Option<u64>,
    /// Why the replay must stop.
    pub(crate) stopped: Option<PublishError>,
}

impl Engine {
    pub(crate) fn dead_letters(
        &self,
        name: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        let mut cursor = after.map(|id| number_of(id).unwrap_or(u64::MAX));
        let mut letters = Vec::new();
        let below = self.next_dead_letter_number();
        loop {
            let (batch, next) = self.read_batch(name, filter, cursor, below)?;
            for (_, letter) in batch {
                if letters.len() == limit {
                    return Ok(DeadLetterPage {
                        next: letters.last().map(|letter: &DeadLetter| letter.id.clone()),
                        letters,
                    });
                }
                letters.push(letter);
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(DeadLetterPage { letters, next: None }),
            }
        }
    }

    /// Matching dead letters of the next batch, and the cursor after it.
    #[allow(clippy::type_complexity, reason = "numbered letters and a cursor; a name would say no more")]
    fn read_batch(
        &self,
        name: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<u64>,
        below: u64,
    ) -> Result<(Vec<(u64, DeadLetter)>, Option<u64>), BrokerError> {
        let state = self.state.lock();
        let queue = state.number(name)?;
        let (numbers, next) = state.dead_letter_batch(queue, filter, after, below);
        let mut letters = Vec::new();
        for (number, slot) in numbers {
            match state.read(slot) {
                Ok(stored) => {
                    let letter = letter(name, number, stored);
                    if filter.matches(&letter) {
                        letters.push((number, letter));
                    }
                }
                Err(error) => tracing::error!(%error, queue = %name, "a dead letter cannot be read"),
            }
        }
        Ok((letters, next))
    }

    /// Number of the next dead letter. An iteration ends there, so that dead letters added meanwhile, such as those of replayed messages,
    /// cannot prolong it for ever.
    pub(crate) fn next_dead_letter_number(&self) -> u64 {
        self.state.lock().next_dead_letter
    }

    /// Prepares the next batch of matching dead letters, below number `below`, for replay.
    pub(crate) fn replay(
        &self,
        name: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<u64>,
        below: u64,
    ) -> Result<ReplayBatch, BrokerError> {
        let mut state = self.state.lock();
        let queue = state.number(name)?;
        let (numbers, next) = state.dead_letter_batch(queue, filter, after, below);
        let mut request = Request::default();
        for (number, slot) in numbers {
            if state.slab.get(slot).state != MessageState::Dead {
                continue;
            }
            let (mut stored, mut history) = match state.with_history(slot) {
                Ok(read) => read,
                Err(error) => {
                    tracing::error!(%error, queue = %name, "a dead letter cannot be read and is not replayed");
                    continue;
                }
            };
            stored.history = Some(history.clone());
            if !filter.matches(&letter(name, number, stored.clone())) {
                continue;
            }
            if let Err(full) = state.check_room(queue) {
                return Ok(ReplayBatch { request, next: None, stopped: Some(full) });
            }
            history.attempts = 0;
            history.replays += 1;
            history.losses = Losses::default();
            // Ordered after all messages before it, also after a restart.
            history.sequence = OWN_POSITION;
            (history.first_error, history.last_error) = (None, None);
            (stored.history, stored.dead_letter) = (Some(history), None);
            let group = stored.group.as_deref().map(Into::into);
            state.slab.get_mut(slot).state = MessageState::Rewriting;
            state.queue(queue).reserved += 1;
            request.add(queue, Kind::Copy, &stored.parts(), Effect::Replay { slot, number, group });
        }
        Ok(ReplayBatch { request, next, stopped: None })
    }

    /// Deletes matching dead letters.
    pub(crate) fn drop_dead_letters(
        &self,
        name: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        let mut cursor = None;
        let mut dropped = 0;
        let below = self.next_dead_letter_number();
        loop {
            let (batch, next) = self.read_batch(name, filter, cursor, below)?;
            let mut state = self.state.lock();
            let queue = state.number(name)?;
            let slots: Vec<(u64, Slot)> = batch
                .iter()
                .filter_map(|(number, _)| Some((*number, *state.queues[queue as usize].dead.get(number)?)))
                .filter(|(_, slot)| state.slab.get(*slot).state == MessageState::Dead)
                .collect();
            self.journal_done(&mut state, &slots.iter().map(|(_, slot)| *slot).collect::<Vec<_>>())?;
            dropped += slots.len() as u64;
            for (number, slot) in slots {
                state.queue(queue).dead.remove(&number);
                state.remove_message(slot);
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(dropped),
            }
        }
    }

    /// Deletes all pending messages.
    pub(crate) fn purge(&self, name: &QueueName, now: Timestamp) -> Result<u64, BrokerError> {
        let mut state = self.state.lock();
        let number = state.number(name)?;
        state.expire_leases(now);
        let slots = state.queues[number as usize].pending_slots(&state.slab);
        self.journal_done(&mut state, &slots)?;
        state.queue(number).clear();
        let count = slots.len() as u64;
        for slot in slots {
            state.remove_message(slot);
        }
        Ok(count)
    }

    fn journal_done(&self, state: &mut State, slots: &[Slot]) -> Result<(), BrokerError> {
        let events: Vec<_> = slots.iter().map(|slot| (state.slab.get(*slot).position, Event::Done)).collect();
        state.write_events(&events).map_err(|error| self.unavailable(&error))
    }
}

impl State {
    /// Next batch of dead letters, and the cursor after it.
    fn dead_letter_batch(
        &self,
        queue: u16,
        filter: &DeadLetterFilter,
        after: Option<u64>,
        below: u64,
    ) -> (Vec<(u64, Slot)>, Option<u64>) {
        let dead = &self.queues[queue as usize].dead;
        if let Some(id) = &filter.id {
            let one = number_of(id).and_then(|number| Some((number, *dead.get(&number)?)));
            return (
                one.into_iter().filter(|(number, _)| after.is_none_or(|after| *number > after)).collect(),
                None,
            );
        }
        if !filter.ids.is_empty() {
            let mut numbers: Vec<u64> = filter.ids.iter().filter_map(number_of).collect();
            numbers.sort_unstable();
            numbers.retain(|number| after.is_none_or(|after| *number > after));
            let next = numbers.get(MAX_BATCH_LEN).map(|_| numbers[MAX_BATCH_LEN - 1]);
            numbers.truncate(MAX_BATCH_LEN);
            let found = numbers.into_iter().filter_map(|number| Some((number, *dead.get(&number)?)));
            return (found.collect(), next);
        }
        let start = after.map_or(0, |after| after.saturating_add(1));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (number, slot) in dead.range(start..below.max(start)) {
            batch.push((*number, *slot));
            bytes += u64::from(self.slab.get(*slot).payload);
            if batch.len() == MAX_BATCH_LEN || bytes >= MAX_BATCH_BYTES {
                return (batch, Some(*number));
            }
        }
        (batch, None)
    }
}

fn number_of(id: &DeadLetterId) -> Option<u64> {
    id.0.strip_prefix('d')?.parse().ok()
}

fn letter(queue: &QueueName, number: u64, mut stored: StoredMessage) -> DeadLetter {
    let history = stored.history.take();
    let (cause, reason, dead_at) = stored
        .dead_letter
        .take()
        .map_or((DeadLetterCause::Refused, String::new(), Timestamp::default()), |dead_letter| {
            (dead_letter.cause, dead_letter.reason, dead_letter.at)
        });
    let (attempts, replays, first_error, last_error) = history.map_or((0, 0, None, None), |history| {
        (history.attempts, history.replays, history.first_error, history.last_error)
    });
    DeadLetter {
        id: DeadLetterId(format!("d{number}")),
        queue: queue.clone(),
        message: stored.into_message(),
        cause,
        reason,
        attempts,
        first_error,
        last_error,
        dead_at,
        replays,
    }
}
