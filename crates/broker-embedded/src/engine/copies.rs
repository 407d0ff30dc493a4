//! Copies: a message written again with what has happened to it, be it a retry, a death, a replay or a move.

use super::{
    commit::{Effect, Request},
    state::State,
};
use crate::{
    index::{Life, Slot},
    journal::Event,
    record::{Carried, Death, Kind, Losses, OWN_PLACE, Stored},
};
use crawlway_broker::{Cause, Failure, Timestamp, limits};
use std::io;

/// What a lost receiver is called among a message's errors.
pub(super) const LOST: &str = "its worker was lost before it settled this";

/// A message that is about to be written elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    pub(crate) slot: Slot,
    pub(crate) queue: u16,
    /// Its delivery, unless its receiver was lost.
    pub(crate) tag: Option<u64>,
    pub(crate) now: Timestamp,
}

/// How a message ends.
struct End<'a> {
    cause: Cause,
    reason: &'a str,
}

impl State {
    /// The message with its history up to now: what its record carries and what was lost since.
    pub(crate) fn with_history(&self, slot: Slot) -> io::Result<(Stored, Carried)> {
        let entry = self.slab.get(slot);
        let mut stored = self.read(slot)?;
        let mut carried = stored.carried.take().unwrap_or(Carried {
            origin: entry.place,
            sequence: entry.place.sequence(),
            attempts: 0,
            replays: 0,
            losses: Losses::default(),
            first_error: None,
            last_error: None,
        });
        carried.origin = entry.place;
        if carried.sequence == OWN_PLACE {
            carried.sequence = entry.place.sequence();
        }
        carried.attempts = u32::from(entry.attempts);
        if let Some(suspicion) = self.suspects.get(&slot) {
            carried.losses = suspicion.losses;
            if let Some((first, last)) = suspicion.since_record {
                let failure = |at| Failure { error: LOST.to_owned(), at };
                carried.first_error.get_or_insert(failure(first));
                carried.last_error = Some(failure(last));
            }
        }
        Ok((stored, carried))
    }

    /// Adds the copy for a failed attempt: back in line when due, or dead if it was the last one. Returns
    /// the number of the next attempt, if there is one.
    pub(crate) fn add_retry(
        &mut self,
        request: &mut Request,
        leaving: Leaving,
        error: &str,
        due: Timestamp,
    ) -> io::Result<Option<u32>> {
        let Leaving { slot, queue, tag, now } = leaving;
        let (mut stored, mut carried) = self.with_history(slot)?;
        let failure = Failure { error: limits::truncated(error, limits::MAX_ERROR).to_owned(), at: now };
        carried.attempts += 1;
        carried.first_error.get_or_insert(failure.clone());
        carried.last_error = Some(failure);
        let attempts = carried.attempts;
        if attempts >= self.queues[queue as usize].spec.max_attempts {
            let end =
                End { cause: Cause::AttemptsUsedUp, reason: &format!("all {attempts} attempts failed") };
            self.add_death(request, leaving, stored, carried, end);
            return Ok(None);
        }
        stored.carried = Some(carried);
        stored.due = due;
        request.add(queue, Kind::Copy, &stored.parts(), Effect::Requeue { slot, tag, due, attempts });
        Ok(Some(attempts + 1))
    }

    /// Adds the copy for a message that is given up by verdict.
    pub(crate) fn add_verdict_death(
        &mut self,
        request: &mut Request,
        leaving: Leaving,
        reason: &str,
    ) -> io::Result<()> {
        let (stored, mut carried) = self.with_history(leaving.slot)?;
        // The attempt that ended so was made, too.
        carried.attempts += 1;
        self.add_death(request, leaving, stored, carried, End { cause: Cause::Refused, reason });
        Ok(())
    }

    fn add_death(
        &mut self,
        request: &mut Request,
        leaving: Leaving,
        mut stored: Stored,
        carried: Carried,
        end: End<'_>,
    ) {
        let Leaving { slot, queue, tag, now } = leaving;
        let number = self.next_death;
        self.next_death += 1;
        let attempts = carried.attempts;
        stored.carried = Some(carried);
        stored.due = Timestamp::default();
        let reason = limits::truncated(end.reason, limits::MAX_ERROR).to_owned();
        stored.death = Some(Death { number, at: now, cause: end.cause, reason });
        request.add(queue, Kind::Dead, &stored.parts(), Effect::Bury { slot, tag, number, attempts });
    }

    /// The lease of a delivery has ended, while its receiver's process, which is this one, lives: that makes the message suspect
    /// and counts nothing.
    fn note_lost(&mut self, queue: u16, slot: Slot, now: Timestamp) {
        let suspicion = self.suspects.entry(slot).or_default();
        suspicion.losses.all = suspicion.losses.all.saturating_add(1);
        suspicion.since_record = Some((suspicion.since_record.map_or(now, |(first, _)| first), now));
        let place = self.slab.get(slot).place;
        self.record_events(&[(place, Event::Lost { at: now })]);
        self.put_back(queue, slot, Timestamp::default(), now);
    }

    /// Gives up a message that has taken too many processes with it and is not in line.
    pub(crate) fn bury_lost(&mut self, slot: Slot, now: Timestamp) {
        let queue = self.slab.get(slot).queue;
        match self.with_history(slot) {
            Ok((stored, mut carried)) => {
                let mut request = Request::default();
                // The attempt in which it ended was made, too.
                carried.attempts += 1;
                let crashes = carried.losses.solo;
                let reason = format!("its worker was lost {crashes} times while it ran nothing else");
                self.slab.get_mut(slot).life = Life::Leaving;
                self.queue(queue).in_flight += 1;
                let leaving = Leaving { slot, queue, tag: None, now };
                let end = End { cause: Cause::WorkerLost, reason: &reason };
                self.add_death(&mut request, leaving, stored, carried, end);
                self.burials.push(request);
            }
            Err(error) => {
                tracing::error!(%error, "a message that is to be dead cannot be read; it is tried again");
                self.put_back(queue, slot, Timestamp::default(), now);
            }
        }
    }

    /// Takes back every delivery whose lease has ended.
    pub(crate) fn expire_leases(&mut self, now: Timestamp) {
        self.forgive_a_freeze(now);
        while let Some(tag) = self.first_expired(now) {
            if let Some(flight) = self.land(tag) {
                self.note_lost(flight.queue, flight.slot, now);
            }
        }
        if self.unburied.is_empty() {
            return;
        }
        for (_, slot) in self.unburied.extract_if(.., |(again, _)| *again <= now).collect::<Vec<_>>() {
            let queue = self.slab.get(slot).queue;
            self.queue(queue).in_flight -= 1;
            self.bury_lost(slot, now);
        }
    }
}
