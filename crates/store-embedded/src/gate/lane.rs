//! One group: what is in flight, who waits, and when the next may go.

use super::{
    life::Before,
    line::Line,
    trouble::{Note, Trouble},
};
use crawlway_store::{
    Limits, Outcome, Policy, Ticket, Timestamp, Why,
    gate::{Jitter, Typical},
};
use std::{collections::VecDeque, time::Duration};

/// A clock that goes back by no more than this is taken to stand still, which no gap notices.
pub(super) const WOBBLE: Duration = Duration::from_secs(1);

/// Nobody comes back sooner than this because of a request that takes longer than thought.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

/// What a lane answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Go { until: Timestamp },
    NotBefore { at: Timestamp, why: Why },
}

/// The state of one group, kept small: there may be millions.
#[derive(Debug)]
pub(super) struct Lane {
    seen: Timestamp,
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
    /// The longest gap that was asked for, which has to pass before the group is forgotten.
    gap: Duration,
    typical: Option<Typical>,
    /// By id, hence by start too.
    in_flight: VecDeque<Held>,
    /// No lease ends before this.
    leases_hold_until: Timestamp,
    line: Option<Box<Line>>,
    trouble: Option<Box<Trouble>>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    id: u64,
    started: Timestamp,
    until: Timestamp,
}

impl Lane {
    /// A group that may have been asked by an earlier process, no later than this.
    pub(super) fn new(now: Timestamp, before: Before) -> Self {
        let Before { last_start, last_end } = before;
        Self {
            seen: now,
            last_start,
            last_end,
            gap: Duration::ZERO,
            typical: None,
            in_flight: VecDeque::new(),
            leases_hold_until: now,
            line: None,
            trouble: None,
        }
    }

    /// Lets this one go, as the permit of this id, or gives it a slot. Ids grow from call to call.
    pub(super) fn reserve(
        &mut self,
        ticket: Ticket,
        limits: &Limits,
        id: u64,
        now: Timestamp,
        policy: &Policy,
        jitter: &Jitter,
    ) -> Answer {
        let now = self.catch_up(now, policy);
        self.gap = self.gap.max(limits.gap);
        let (free, why) = self.earliest(limits, now, policy);
        let pace = limits.pace(self.likely(policy));
        let mean = self.typical.map_or(policy.first_guess, Typical::mean).min(policy.lease);
        let slot = self.line.as_ref().and_then(|line| line.at(ticket));
        let at = match slot {
            Some(_) if self.is_first(ticket) && free <= now => now,
            Some(slot) => slot.max(free),
            None => self.place_for_a_newcomer(free, pace),
        };
        if at <= now {
            return self.start(ticket, id, now, policy);
        }
        let line = self.line.get_or_insert_default();
        match slot {
            Some(slot) if slot == at => {}
            // Slots are a little further apart than requests take on average; that little is used up first.
            Some(_) => line.put_off(ticket, at, limits.pace(mean)),
            None if line.len() >= policy.longest_line => {
                // All of them come back, so they are spread over as long as the line now takes.
                let spread = jitter.up_to(at.since(now));
                return Answer::NotBefore { at: at + spread, why: Why::Crowded };
            }
            None => line.add(ticket, at),
        }
        Answer::NotBefore { at, why }
    }

    /// Drops a slot.
    pub(super) fn leave(&mut self, ticket: Ticket, now: Timestamp, policy: &Policy) {
        self.catch_up(now, policy);
        if let Some(line) = &mut self.line {
            line.remove(ticket);
        }
    }

    /// Ends a request; false if its lease was lost.
    pub(super) fn finish(
        &mut self,
        id: u64,
        outcome: Outcome,
        now: Timestamp,
        policy: &Policy,
        jitter: &Jitter,
    ) -> bool {
        let now = self.catch_up(now, policy);
        let Some(index) = self.find(id) else { return false };
        let Some(held) = self.in_flight.remove(index) else { return false };
        self.ended(now);
        match outcome {
            Outcome::Success => {
                let took = now.since(held.started);
                self.typical = Some(self.typical.map_or(Typical::first(took), |typical| typical.and(took)));
                self.trouble.take_if(|trouble| !trouble.is_old_news(held.started));
            }
            Outcome::Blocked { .. } | Outcome::Failed => {
                let trouble = self.trouble.get_or_insert_with(|| Box::new(Trouble::new(now)));
                trouble.failed(outcome, held.started, now, policy, jitter);
                if let Some(line) = &mut self.line {
                    line.none_before(now, trouble.until());
                }
            }
            Outcome::Neutral => {}
        }
        true
    }

    /// Renews a lease and says until when; none if it was lost.
    pub(super) fn extend(&mut self, id: u64, now: Timestamp, policy: &Policy) -> Option<Timestamp> {
        let now = self.catch_up(now, policy);
        let index = self.find(id)?;
        let until = now + policy.lease;
        self.in_flight[index].until = until;
        Some(until)
    }

    /// When this group can be forgotten, if nothing more happens; `None` while it is in use.
    pub(super) fn forget_at(&mut self, now: Timestamp, policy: &Policy) -> Option<Timestamp> {
        let now = self.catch_up(now, policy);
        if !self.in_flight.is_empty() || self.line.is_some() {
            return None;
        }
        let last = self.last_start.max(self.last_end).unwrap_or(now);
        let idle = last + self.gap.max(policy.idle);
        Some(self.trouble.as_ref().map_or(idle, |trouble| idle.max(trouble.until() + policy.grudge)))
    }

    /// Takes over what an earlier process remembered of the group.
    pub(super) fn remember(&mut self, note: Note, policy: &Policy) {
        self.trouble = Some(Box::new(Trouble::remembered(note, self.seen, policy)));
    }

    /// What is to be remembered of the group's trouble, if it is in trouble.
    pub(super) fn note(&self) -> Option<Note> {
        self.trouble.as_ref().map(|trouble| trouble.note())
    }

    /// When its last request was; what is in flight will have ended with its lease.
    pub(super) fn last(&self) -> Before {
        let leases = self.in_flight.iter().map(|held| held.until).max();
        Before { last_start: self.last_start, last_end: self.last_end.max(leases) }
    }

    /// Follows the clock: leases end, slots lapse, and what a clock set back left in the future is taken along.
    fn catch_up(&mut self, now: Timestamp, policy: &Policy) -> Timestamp {
        let back = self.seen.since(now);
        if back > WOBBLE {
            self.turn_back(back);
        } else if !back.is_zero() {
            return self.seen;
        }
        self.seen = now;
        if self.leases_hold_until <= now {
            self.end_lost_leases(now);
        }
        self.line.take_if(|line| {
            line.lapse(now - policy.grace);
            line.is_empty()
        });
        now
    }

    fn end_lost_leases(&mut self, now: Timestamp) {
        let lost: Vec<Held> = self.in_flight.iter().filter(|held| held.until <= now).copied().collect();
        self.in_flight.retain(|held| held.until > now);
        for held in lost {
            self.ended(held.until);
        }
        self.leases_hold_until = self.in_flight.iter().map(|held| held.until).min().unwrap_or(now);
    }

    fn ended(&mut self, at: Timestamp) {
        self.last_end = self.last_end.max(Some(at));
        if self.in_flight.is_empty() {
            // Most groups are idle most of the time, and there are many: room for the next one is not kept.
            self.in_flight = VecDeque::new();
        }
    }

    fn turn_back(&mut self, by: Duration) {
        for time in [&mut self.last_start, &mut self.last_end].into_iter().flatten() {
            *time = *time - by;
        }
        for held in &mut self.in_flight {
            held.started = held.started - by;
            held.until = held.until - by;
        }
        self.leases_hold_until = self.leases_hold_until - by;
        if let Some(line) = &mut self.line {
            line.turn_back(by);
        }
        if let Some(trouble) = &mut self.trouble {
            trouble.turn_back(by);
        }
    }

    /// When one more could go if nobody waited, as far as can be foreseen, and why not now.
    fn earliest(&self, limits: &Limits, now: Timestamp, policy: &Policy) -> (Timestamp, Why) {
        let alone = limits.in_flight == 1;
        let last = if alone { self.last_end } else { self.last_start };
        let mut at = last.map_or(now, |last| now.max(last + limits.gap));
        let mut why = Why::Pace;
        if let Some(held) = self.in_the_way(limits) {
            let end = self.likely_end(held, now, policy);
            at = at.max(if alone { end + limits.gap } else { end });
            why = Why::Busy;
        }
        if let Some(trouble) = &self.trouble {
            at = at.max(trouble.until());
            why = trouble.why(now).unwrap_or(why);
        }
        (at, why)
    }

    /// The request that has to end before one more can start.
    fn in_the_way(&self, limits: &Limits) -> Option<&Held> {
        let probe = self.trouble.as_ref().and_then(|trouble| trouble.probe);
        if let Some(index) = probe.and_then(|probe| self.find(probe)) {
            return self.in_flight.get(index);
        }
        let allowed = usize::try_from(limits.in_flight).unwrap_or(usize::MAX);
        self.in_flight.get(self.in_flight.len().checked_sub(allowed)?)
    }

    /// When this request will have ended, its lease at the latest. What takes longer than thought is thought to
    /// take half as long again, so that who waits for it asks a few times and not all the time.
    fn likely_end(&self, held: &Held, now: Timestamp, policy: &Policy) -> Timestamp {
        let thought = held.started + self.likely(policy);
        let end =
            if thought > now { thought } else { now + (now.since(held.started) / 2).max(LEAST_PATIENCE) };
        end.min(held.until)
    }

    fn likely(&self, policy: &Policy) -> Duration {
        self.typical.map_or(policy.first_guess, Typical::likely).min(policy.lease)
    }

    /// Before the line where there is room, else behind it.
    fn place_for_a_newcomer(&self, free: Timestamp, pace: Duration) -> Timestamp {
        let Some(line) = &self.line else { return free };
        let (Some((first, _)), Some(last)) = (line.first(), line.last()) else { return free };
        if free + pace <= first { free } else { free.max(last + pace) }
    }

    fn is_first(&self, ticket: Ticket) -> bool {
        self.line.as_ref().and_then(|line| line.first()).is_some_and(|(_, first)| first == ticket)
    }

    fn start(&mut self, ticket: Ticket, id: u64, now: Timestamp, policy: &Policy) -> Answer {
        if let Some(line) = &mut self.line {
            line.remove(ticket);
        }
        let until = now + policy.lease;
        if self.in_flight.is_empty() {
            self.leases_hold_until = until;
        }
        self.in_flight.push_back(Held { id, started: now, until });
        self.last_start = self.last_start.max(Some(now));
        if let Some(trouble) = &mut self.trouble
            && trouble.is_open()
        {
            trouble.probe = Some(id);
        }
        Answer::Go { until }
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.in_flight.binary_search_by_key(&id, |held| held.id).ok()
    }
}
