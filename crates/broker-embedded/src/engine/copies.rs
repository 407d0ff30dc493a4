//! Copies of messages with their history: retries, dead letters, replays and relocations.

use super::{
    commit::{Effect, Request},
    state::State,
};
use crate::{
    index::{MessageState, Slot},
    journal::Event,
    record::{DeadLetterInfo, Kind, Losses, MessageHistory, OWN_POSITION, StoredMessage},
};
use crawlway_broker::{DeadLetterCause, Failure, Timestamp, limits};
use std::io;

/// Error text for an attempt whose worker was lost.
pub(super) const LOST: &str = "its worker was lost before the message was settled";

/// A message to be rewritten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rewrite {
    pub(crate) slot: Slot,
    pub(crate) queue: u16,
    /// Tag of its delivery, unless its worker is lost.
    pub(crate) tag: Option<u64>,
    pub(crate) now: Timestamp,
}

impl State {
    /// Reads a message with its complete history: from its record, and lost workers since.
    pub(crate) fn with_history(&self, slot: Slot) -> io::Result<(StoredMessage, MessageHistory)> {
        let entry = self.slab.get(slot);
        let mut stored = self.read(slot)?;
        let mut history = stored.history.take().unwrap_or(MessageHistory {
            origin: entry.position,
            sequence: entry.position.sequence(),
            attempts: 0,
            replays: 0,
            losses: Losses::default(),
            first_error: None,
            last_error: None,
        });
        history.origin = entry.position;
        if history.sequence == OWN_POSITION {
            history.sequence = entry.position.sequence();
        }
        history.attempts = u32::from(entry.attempts);
        if let Some(loss_history) = self.suspects.get(&slot) {
            history.losses = loss_history.losses;
            if let Some((first, last)) = loss_history.since_record {
                let failure = |at| Failure { error: LOST.to_owned(), at };
                history.first_error.get_or_insert(failure(first));
                history.last_error = Some(failure(last));
            }
        }
        Ok((stored, history))
    }

    /// Adds the copy for a failed attempt, or the dead letter if it was the last one. Returns the number of the next
    /// attempt, if any.
    pub(crate) fn add_retry(
        &mut self,
        request: &mut Request,
        rewrite: Rewrite,
        error: &str,
        due: Timestamp,
    ) -> io::Result<Option<u32>> {
        let Rewrite { slot, queue, tag, now } = rewrite;
        let (mut stored, mut history) = self.with_history(slot)?;
        let failure =
            Failure { error: limits::truncated(error, limits::MAX_ERROR_BYTES).to_owned(), at: now };
        history.attempts += 1;
        history.first_error.get_or_insert(failure.clone());
        history.last_error = Some(failure);
        let attempts = history.attempts;
        if attempts >= self.queues[queue as usize].spec.max_attempts {
            let reason = format!("all {attempts} attempts failed");
            let cause = DeadLetterCause::AttemptsUsedUp;
            self.add_dead_letter_copy(request, rewrite, stored, history, cause, &reason);
            return Ok(None);
        }
        stored.history = Some(history);
        stored.due = due;
        request.add(queue, Kind::Copy, &stored.parts(), Effect::Retry { slot, tag, due, attempts });
        Ok(Some(attempts + 1))
    }

    /// Adds the dead letter for a rejected message.
    pub(crate) fn add_rejection(
        &mut self,
        request: &mut Request,
        rewrite: Rewrite,
        reason: &str,
    ) -> io::Result<()> {
        let (stored, mut history) = self.with_history(rewrite.slot)?;
        // The rejected attempt counts, too.
        history.attempts += 1;
        self.add_dead_letter_copy(request, rewrite, stored, history, DeadLetterCause::Refused, reason);
        Ok(())
    }

    fn add_dead_letter_copy(
        &mut self,
        request: &mut Request,
        rewrite: Rewrite,
        mut stored: StoredMessage,
        history: MessageHistory,
        cause: DeadLetterCause,
        reason: &str,
    ) {
        let Rewrite { slot, queue, tag, now } = rewrite;
        let number = self.next_dead_letter;
        self.next_dead_letter += 1;
        let attempts = history.attempts;
        stored.history = Some(history);
        stored.due = Timestamp::default();
        let reason = limits::truncated(reason, limits::MAX_ERROR_BYTES).to_owned();
        stored.dead_letter = Some(DeadLetterInfo { number, at: now, cause, reason });
        request.add(queue, Kind::Dead, &stored.parts(), Effect::DeadLetter { slot, tag, number, attempts });
    }

    /// Returns a message whose lease ended to the queue. The worker's process is this one and alive, so the message
    /// becomes suspect and no crash is counted.
    fn return_suspect(&mut self, queue: u16, slot: Slot, now: Timestamp) {
        let loss_history = self.suspects.entry(slot).or_default();
        loss_history.losses.all = loss_history.losses.all.saturating_add(1);
        loss_history.since_record = Some((loss_history.since_record.map_or(now, |(first, _)| first), now));
        let position = self.slab.get(slot).position;
        self.record_events(&[(position, Event::WorkerLost { at: now })]);
        self.put_back(queue, slot, Timestamp::default(), now);
    }

    /// Turns a message with too many solo crashes into a dead letter. It must not be pending.
    pub(crate) fn dead_letter_crashed(&mut self, slot: Slot, now: Timestamp) {
        let queue = self.slab.get(slot).queue;
        match self.with_history(slot) {
            Ok((stored, mut history)) => {
                let mut request = Request::default();
                // The attempt that crashed counts, too.
                history.attempts += 1;
                let crashes = history.losses.solo;
                let reason = format!("its worker was lost {crashes} times while it ran nothing else");
                self.slab.get_mut(slot).state = MessageState::Rewriting;
                self.queue(queue).in_flight += 1;
                let rewrite = Rewrite { slot, queue, tag: None, now };
                let cause = DeadLetterCause::WorkerLost;
                self.add_dead_letter_copy(&mut request, rewrite, stored, history, cause, &reason);
                self.dead_letter_requests.push(request);
            }
            Err(error) => {
                tracing::error!(%error, "a message cannot be read to make it a dead letter; it is delivered again");
                self.put_back(queue, slot, Timestamp::default(), now);
            }
        }
    }

    /// Ends deliveries with expired leases, and retries failed dead-letter writes.
    pub(crate) fn expire_leases(&mut self, now: Timestamp) {
        self.extend_suspended_leases(now);
        while let Some(tag) = self.first_expired(now) {
            if let Some(delivery) = self.end_delivery(tag) {
                self.return_suspect(delivery.queue, delivery.slot, now);
            }
        }
        let retries: Vec<_> =
            self.failed_dead_letters.extract_if(.., |(retry_at, _)| *retry_at <= now).collect();
        for (_, slot) in retries {
            let queue = self.slab.get(slot).queue;
            self.queue(queue).in_flight -= 1;
            self.dead_letter_crashed(slot, now);
        }
    }
}
