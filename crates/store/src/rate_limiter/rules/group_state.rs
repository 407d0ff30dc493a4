//! State of one group, and the rules: who gets a permit, who waits for how long, and the effect of a request's outcome.

use super::{
    Answer, Context, FailureRecord, LastRequests, MAX_CONCURRENCY, Request, estimate::Earliest,
    failures::Failures, line::Line,
};
use crate::{
    Timestamp,
    rate_limiter::{Jitter, LatencyEstimate, RateLimitPolicy, RateLimits, RequestOutcome, WaitReason},
};
use std::time::Duration;

/// Maximum step back of the clock that is treated as standing still.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Number of low bits of a permit's id that count; the others are the start of its request in milliseconds.
const COUNT_BITS: u32 = 20;

/// State of one group, kept small since there may be millions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupState {
    /// Last reading of the clock.
    pub(super) clock: Timestamp,
    pub(super) last: LastRequests,
    /// Longest minimum delay of any call, which has to pass before the group is removed.
    pub(super) min_delay: Duration,
    pub(super) latency: Option<LatencyEstimate>,
    pub(super) last_id: u64,
    /// Ordered by id, hence by start too.
    pub(super) in_flight: Vec<InFlight>,
    pub(super) line: Line,
    pub(super) failures: Option<Box<Failures>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) id: u64,
    pub(super) started: Timestamp,
    pub(super) until: Timestamp,
}

impl GroupState {
    /// A new group.
    pub fn new(now: Timestamp, jitter: &Jitter) -> Self {
        Self {
            clock: now,
            last: LastRequests::default(),
            min_delay: Duration::ZERO,
            latency: None,
            // Random, so that a permit of a lost state is not taken for one of this state.
            last_id: (now.as_millis() << COUNT_BITS) | (jitter.next_u64() >> 48),
            in_flight: Vec::new(),
            // From the time, so that a place of an earlier state is not taken for one of this state.
            line: Line::new(now.as_millis() << 10),
            failures: None,
        }
    }

    /// The same group after requests that its state does not have.
    #[must_use]
    pub fn after(mut self, earlier: LastRequests) -> Self {
        self.last = self.last.max(earlier);
        self
    }

    /// The same group with the failures that an earlier process stored.
    #[must_use]
    pub fn with_failures(mut self, record: FailureRecord, policy: &RateLimitPolicy) -> Self {
        self.failures = Some(Box::new(Failures::restored(record, self.clock, policy)));
        self
    }

    /// Failures of the group.
    pub fn failures(&self) -> Option<FailureRecord> {
        self.failures.as_ref().map(|failures| failures.record)
    }

    /// Times of its last requests; those in flight end with their leases at the latest.
    pub fn last_requests(&self) -> LastRequests {
        let leases = self.in_flight.iter().map(|request| request.until).max();
        self.last.max(LastRequests { last_start: None, last_end: leases })
    }

    /// Number of the first place that is taken, and how many are.
    pub fn places(&self) -> (u64, u64) {
        (self.line.first, self.line.len())
    }

    /// When the group can be removed if it is not used until then.
    pub fn expires_at(&self, policy: &RateLimitPolicy) -> Timestamp {
        let LastRequests { last_start, last_end } = self.last_requests();
        let last = last_start.max(last_end).unwrap_or(self.clock);
        let mut at = last + self.min_delay.max(policy.idle_ttl);
        if let Some(failures) = &self.failures {
            at = at.max(failures.record.until + policy.failure_ttl);
        }
        if let Some(last) = self.line.last_time() {
            at = at.max(last + policy.grace + Duration::from_millis(1));
        }
        if self.line.beyond > 0 {
            at = at.max(self.latest_return(policy) + policy.grace);
        }
        at
    }

    pub(super) fn decide(&mut self, request: Request, context: &Context<'_>) -> Answer {
        self.catch_up(context.now, context.policy);
        match request {
            Request::Reserve { place, limits } => self.reserve(place, limits, context),
            Request::Cancel { place } => {
                self.leave(place, context.policy);
                Answer::Cancelled
            }
            Request::Finish { id, outcome } => self.finish(id, outcome, context),
            Request::Extend { id } => self.extend(id, context),
            Request::Restore(record) => {
                let restored = || Box::new(Failures::restored(record, context.now, context.policy));
                self.failures.get_or_insert_with(restored);
                Answer::Finished
            }
        }
    }

    /// Follows the clock: ends leases, passes over places, and shifts all times if the clock was set back.
    pub fn catch_up(&mut self, now: Timestamp, policy: &RateLimitPolicy) {
        let back = self.clock.since(now);
        if back > CLOCK_TOLERANCE {
            self.set_back(back);
        } else if !back.is_zero() {
            return;
        }
        self.clock = now;
        let lost = self.in_flight.extract_if(.., |request| request.until <= now);
        let last_end = lost.map(|request| request.until).max();
        self.last.last_end = self.last.last_end.max(last_end);
        self.free_memory();
        self.line.pass_over(now - policy.grace, self.latest_return(policy));
    }

    fn set_back(&mut self, by: Duration) {
        let LastRequests { last_start, last_end } = &mut self.last;
        for time in [last_start, last_end].into_iter().flatten() {
            *time = *time - by;
        }
        for request in &mut self.in_flight {
            request.started = request.started - by;
            request.until = request.until - by;
        }
        self.line.set_back(by);
        if let Some(failures) = &mut self.failures {
            failures.set_back(by);
        }
    }

    fn reserve(&mut self, place: Option<u64>, mut limits: RateLimits, context: &Context<'_>) -> Answer {
        let Context { policy, jitter, .. } = *context;
        let now = self.clock;
        limits.concurrency = limits.concurrency.min(MAX_CONCURRENCY);
        self.min_delay = self.min_delay.max(limits.min_delay);
        let Earliest { at: free, bound, reason } = self.earliest(&limits, context);
        let number = place.filter(|place| self.line.contains(*place));
        let next = number.unwrap_or(self.line.next());
        let typical = limits.slot_interval(self.mean_latency(policy));
        if free <= now && !self.line.is_contested(next, now, typical) {
            self.leave(number, policy);
            return self.grant(context);
        }
        let ahead = self.line.ahead_of(next);
        let interval = limits.slot_interval(self.latency(policy));
        let expected = free.max(now) + interval.saturating_mul(ahead);
        let turn = match number {
            None => self.line.last_time().map_or(expected, |last| expected.max(last + interval)),
            // Times are further apart than the mean latency requires; that reserve is used up first.
            Some(number) => {
                let time = self.line.time_of(number).unwrap_or(now);
                time.min(expected).max(free.max(now) + typical.saturating_mul(ahead))
            }
        };
        let at = turn.min(bound + policy.max_defer).max(now + Duration::from_millis(1));
        if number.is_none() && self.line.len() >= policy.max_slots as u64 {
            // Callers without a place are spread over the time that the line takes.
            let at = at + jitter.up_to(at.since(now));
            return Answer::Wait { place: None, at, reason: WaitReason::Overloaded };
        }
        self.line.set(next, at);
        Answer::Wait { place: Some(next), at, reason }
    }

    fn leave(&mut self, place: Option<u64>, policy: &RateLimitPolicy) {
        if let Some(place) = place {
            let unknown = self.latest_return(policy);
            self.line.free(place, unknown);
        }
    }

    fn grant(&mut self, context: &Context<'_>) -> Answer {
        let now = self.clock;
        let id = (self.last_id + 1).max(now.as_millis() << COUNT_BITS).max(context.min_id);
        let until = now + context.policy.lease;
        self.last_id = id;
        self.in_flight.push(InFlight { id, started: now, until });
        self.last.last_start = self.last.last_start.max(Some(now));
        if let Some(failures) = &mut self.failures
            && failures.is_open()
        {
            failures.probe = Some(id);
        }
        Answer::Granted { id, until }
    }

    fn finish(&mut self, id: u64, outcome: RequestOutcome, context: &Context<'_>) -> Answer {
        let Some(index) = self.find(id, context) else { return Answer::Fenced };
        let Context { policy, jitter, .. } = *context;
        let now = self.clock;
        let started = self.in_flight.remove(index).started;
        self.last.last_end = self.last.last_end.max(Some(now));
        self.free_memory();
        match outcome {
            RequestOutcome::Success => {
                let latency = now.since(started);
                self.latency = Some(match self.latency {
                    Some(estimate) => estimate.update(latency),
                    None => LatencyEstimate::first(latency),
                });
                self.failures.take_if(|failures| !failures.predates_last_failure(started));
            }
            RequestOutcome::Blocked { .. } | RequestOutcome::Failed => {
                let failures = self.failures.get_or_insert_with(|| Box::new(Failures::new(now)));
                failures.failed(outcome, started, now, policy, jitter);
            }
            RequestOutcome::Neutral => {}
        }
        Answer::Finished
    }

    fn extend(&mut self, id: u64, context: &Context<'_>) -> Answer {
        let Some(index) = self.find(id, context) else { return Answer::Fenced };
        let until = self.clock + context.policy.lease;
        self.in_flight[index].until = until;
        Answer::Extended(until)
    }

    /// When every holder of a place behind the window has come back.
    fn latest_return(&self, policy: &RateLimitPolicy) -> Timestamp {
        let free = self.clock + self.min_delay;
        self.failures.as_ref().map_or(free, |failures| free.max(failures.until())) + policy.max_defer
    }

    /// Index of a request in flight. A request whose permit was lost with an earlier state is added again.
    fn find(&mut self, id: u64, context: &Context<'_>) -> Option<usize> {
        let index = match self.in_flight.binary_search_by_key(&id, |request| request.id) {
            Ok(index) => return Some(index),
            Err(index) => index,
        };
        let started = Timestamp::from_millis(id >> COUNT_BITS);
        let until = started + context.policy.lease;
        let is_lost = started < context.lost_before? && started <= self.clock && until > self.clock;
        is_lost.then(|| {
            self.in_flight.insert(index, InFlight { id, started, until });
            self.last.last_start = self.last.last_start.max(Some(started));
            index
        })
    }

    /// Frees the memory of a group without requests in flight, since most groups are idle most of the time.
    fn free_memory(&mut self) {
        if self.in_flight.is_empty() {
            self.in_flight = Vec::new();
        }
    }
}
