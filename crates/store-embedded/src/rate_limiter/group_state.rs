//! State of one group: requests in flight, slots, and the time of the next permit.

use super::{
    failures::{FailureRecord, Failures},
    persistence::LastRequests,
    slots::Slots,
};
use crawlway_store::{
    RateLimitPolicy, RateLimits, RequestOutcome, Ticket, Timestamp, WaitReason,
    rate_limiter::{Jitter, LatencyEstimate},
};
use std::{collections::VecDeque, time::Duration};

/// Maximum step back of the clock that is treated as standing still.
pub(super) const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Minimum remaining time assumed for a request that exceeds its latency estimate.
const MIN_REMAINING: Duration = Duration::from_millis(50);

/// Decision about a request for a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Granted { until: Timestamp },
    NotBefore { at: Timestamp, why: WaitReason },
}

/// State of one group, kept small since there may be millions.
#[derive(Debug)]
pub(super) struct GroupState {
    /// Last reading of the clock.
    clock: Timestamp,
    last_start: Option<Timestamp>,
    last_end: Option<Timestamp>,
    /// Longest minimum delay of any call, which has to pass before the group is removed.
    min_delay: Duration,
    latency: Option<LatencyEstimate>,
    /// Ordered by id, hence by start too.
    in_flight: VecDeque<InFlight>,
    /// Lower bound of the ends of all leases.
    min_lease_end: Timestamp,
    slots: Option<Box<Slots>>,
    failures: Option<Box<Failures>>,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    id: u64,
    started: Timestamp,
    until: Timestamp,
}

impl GroupState {
    /// A new group, which earlier processes may have sent requests to until these times.
    pub(super) fn new(now: Timestamp, earlier: LastRequests) -> Self {
        let LastRequests { last_start, last_end } = earlier;
        Self {
            clock: now,
            last_start,
            last_end,
            min_delay: Duration::ZERO,
            latency: None,
            in_flight: VecDeque::new(),
            min_lease_end: now,
            slots: None,
            failures: None,
        }
    }

    /// Grants a permit with this id, or reserves a slot. Ids must grow from call to call.
    pub(super) fn reserve(
        &mut self,
        ticket: Ticket,
        limits: &RateLimits,
        id: u64,
        now: Timestamp,
        policy: &RateLimitPolicy,
        jitter: &Jitter,
    ) -> Decision {
        let now = self.catch_up(now, policy);
        self.min_delay = self.min_delay.max(limits.min_delay);
        let (free, why) = self.earliest(limits, now, policy);
        let interval = limits.slot_interval(self.latency(policy));
        let mean = self.latency.map_or(policy.initial_latency, LatencyEstimate::mean).min(policy.lease);
        let slot = self.slots.as_ref().and_then(|slots| slots.time_of(ticket));
        let at = match slot {
            Some(_) if self.is_first(ticket) && free <= now => now,
            Some(slot) => slot.max(free),
            None => self.new_slot(free, interval),
        };
        if at <= now {
            return self.start(ticket, id, now, policy);
        }
        let slots = self.slots.get_or_insert_default();
        match slot {
            Some(slot) if slot == at => {}
            // Slots are further apart than the mean latency requires; that reserve is used up first.
            Some(_) => slots.postpone(ticket, at, limits.slot_interval(mean)),
            None if slots.len() >= policy.max_slots => {
                // Callers without a slot are spread over the time that the existing slots take.
                let spread = jitter.up_to(at.since(now));
                return Decision::NotBefore { at: at + spread, why: WaitReason::Overloaded };
            }
            None => slots.add(ticket, at),
        }
        Decision::NotBefore { at, why }
    }

    /// Cancels a slot.
    pub(super) fn cancel(&mut self, ticket: Ticket, now: Timestamp, policy: &RateLimitPolicy) {
        self.catch_up(now, policy);
        if let Some(slots) = &mut self.slots {
            slots.remove(ticket);
        }
    }

    /// Ends a request. Returns `false` if its lease was lost.
    pub(super) fn finish(
        &mut self,
        id: u64,
        outcome: RequestOutcome,
        now: Timestamp,
        policy: &RateLimitPolicy,
        jitter: &Jitter,
    ) -> bool {
        let now = self.catch_up(now, policy);
        let Some(index) = self.find(id) else { return false };
        let Some(request) = self.in_flight.remove(index) else { return false };
        self.ended(now);
        match outcome {
            RequestOutcome::Success => {
                let latency = now.since(request.started);
                self.latency = Some(match self.latency {
                    Some(estimate) => estimate.update(latency),
                    None => LatencyEstimate::first(latency),
                });
                self.failures.take_if(|failures| !failures.predates_last_failure(request.started));
            }
            RequestOutcome::Blocked { .. } | RequestOutcome::Failed => {
                let failures = self.failures.get_or_insert_with(|| Box::new(Failures::new(now)));
                failures.failed(outcome, request.started, now, policy, jitter);
                if let Some(slots) = &mut self.slots {
                    slots.delay_until(now, failures.until());
                }
            }
            RequestOutcome::Neutral => {}
        }
        true
    }

    /// Renews a lease and returns its end; `None` if it was lost.
    pub(super) fn extend(&mut self, id: u64, now: Timestamp, policy: &RateLimitPolicy) -> Option<Timestamp> {
        let now = self.catch_up(now, policy);
        let index = self.find(id)?;
        let until = now + policy.lease;
        self.in_flight[index].until = until;
        Some(until)
    }

    /// When the group can be removed if it is not used until then; `None` while it is in use.
    pub(super) fn expires_at(&mut self, now: Timestamp, policy: &RateLimitPolicy) -> Option<Timestamp> {
        let now = self.catch_up(now, policy);
        if !self.in_flight.is_empty() || self.slots.is_some() {
            return None;
        }
        let last = self.last_start.max(self.last_end).unwrap_or(now);
        let idle = last + self.min_delay.max(policy.idle_ttl);
        Some(self.failures.as_ref().map_or(idle, |failures| idle.max(failures.until() + policy.failure_ttl)))
    }

    /// Restores the failures stored by an earlier process.
    pub(super) fn restore(&mut self, record: FailureRecord, policy: &RateLimitPolicy) {
        self.failures = Some(Box::new(Failures::restored(record, self.clock, policy)));
    }

    /// Failures of the group to be stored.
    pub(super) fn failure_record(&self) -> Option<FailureRecord> {
        self.failures.as_ref().map(|failures| failures.record())
    }

    /// Times of its last requests; those in flight end with their leases at the latest.
    pub(super) fn last_requests(&self) -> LastRequests {
        let leases = self.in_flight.iter().map(|request| request.until).max();
        LastRequests { last_start: self.last_start, last_end: self.last_end.max(leases) }
    }

    /// Follows the clock: ends leases, expires slots, and shifts all times if the clock was set back.
    fn catch_up(&mut self, now: Timestamp, policy: &RateLimitPolicy) -> Timestamp {
        let back = self.clock.since(now);
        if back > CLOCK_TOLERANCE {
            self.set_back(back);
        } else if !back.is_zero() {
            return self.clock;
        }
        self.clock = now;
        if self.min_lease_end <= now {
            self.end_expired_leases(now);
        }
        self.slots.take_if(|slots| {
            slots.expire(now - policy.grace);
            slots.is_empty()
        });
        now
    }

    fn end_expired_leases(&mut self, now: Timestamp) {
        let expired = self.in_flight.iter().map(|request| request.until).filter(|until| *until <= now).max();
        self.in_flight.retain(|request| request.until > now);
        if let Some(until) = expired {
            self.ended(until);
        }
        self.min_lease_end = self.in_flight.iter().map(|request| request.until).min().unwrap_or(now);
    }

    fn ended(&mut self, at: Timestamp) {
        self.last_end = self.last_end.max(Some(at));
        if self.in_flight.is_empty() {
            // Frees the memory, since most groups are idle most of the time.
            self.in_flight = VecDeque::new();
        }
    }

    fn set_back(&mut self, by: Duration) {
        for time in [&mut self.last_start, &mut self.last_end].into_iter().flatten() {
            *time = *time - by;
        }
        for request in &mut self.in_flight {
            request.started = request.started - by;
            request.until = request.until - by;
        }
        self.min_lease_end = self.min_lease_end - by;
        if let Some(slots) = &mut self.slots {
            slots.set_back(by);
        }
        if let Some(failures) = &mut self.failures {
            failures.set_back(by);
        }
    }

    /// Estimated time of the next permit if there were no slots, and the reason for a wait.
    fn earliest(
        &self,
        limits: &RateLimits,
        now: Timestamp,
        policy: &RateLimitPolicy,
    ) -> (Timestamp, WaitReason) {
        let sequential = limits.concurrency == 1;
        let last = if sequential { self.last_end } else { self.last_start };
        let mut at = last.map_or(now, |last| now.max(last + limits.min_delay));
        let mut why = WaitReason::MinDelay;
        if let Some(request) = self.blocking_request(limits) {
            let end = self.estimated_end(request, now, policy);
            at = at.max(if sequential { end + limits.min_delay } else { end });
            why = WaitReason::Concurrency;
        }
        if let Some(failures) = &self.failures {
            at = at.max(failures.until());
            why = failures.why(now).unwrap_or(why);
        }
        (at, why)
    }

    /// The request that has to end before one more can start.
    fn blocking_request(&self, limits: &RateLimits) -> Option<&InFlight> {
        let probe = self.failures.as_ref().and_then(|failures| failures.probe);
        if let Some(index) = probe.and_then(|probe| self.find(probe)) {
            return self.in_flight.get(index);
        }
        let allowed = usize::try_from(limits.concurrency).unwrap_or(usize::MAX);
        self.in_flight.get(self.in_flight.len().checked_sub(allowed)?)
    }

    /// Estimated end of a request, at most the end of its lease. A request that exceeds the latency estimate is assumed
    /// to take half as long again, so that callers that wait for it ask a few times only.
    fn estimated_end(&self, request: &InFlight, now: Timestamp, policy: &RateLimitPolicy) -> Timestamp {
        let estimate = request.started + self.latency(policy);
        let end =
            if estimate > now { estimate } else { now + (now.since(request.started) / 2).max(MIN_REMAINING) };
        end.min(request.until)
    }

    fn latency(&self, policy: &RateLimitPolicy) -> Duration {
        self.latency.map_or(policy.initial_latency, LatencyEstimate::upper_bound).min(policy.lease)
    }

    /// Time of a new slot: before the existing ones if there is room, otherwise behind them.
    fn new_slot(&self, free: Timestamp, interval: Duration) -> Timestamp {
        let Some(slots) = &self.slots else { return free };
        let (Some((first, _)), Some(last)) = (slots.first(), slots.last()) else { return free };
        if free + interval <= first { free } else { free.max(last + interval) }
    }

    fn is_first(&self, ticket: Ticket) -> bool {
        self.slots.as_ref().and_then(|slots| slots.first()).is_some_and(|(_, first)| first == ticket)
    }

    fn start(&mut self, ticket: Ticket, id: u64, now: Timestamp, policy: &RateLimitPolicy) -> Decision {
        if let Some(slots) = &mut self.slots {
            slots.remove(ticket);
        }
        let until = now + policy.lease;
        if self.in_flight.is_empty() {
            self.min_lease_end = until;
        }
        self.in_flight.push_back(InFlight { id, started: now, until });
        self.last_start = self.last_start.max(Some(now));
        if let Some(failures) = &mut self.failures
            && failures.is_open()
        {
            failures.probe = Some(id);
        }
        Decision::Granted { until }
    }

    fn find(&self, id: u64) -> Option<usize> {
        self.in_flight.binary_search_by_key(&id, |request| request.id).ok()
    }
}
