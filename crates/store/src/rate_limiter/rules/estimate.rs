//! Estimates of a group: when the next permit can be granted, and how long requests take.

use super::{Context, GroupState, LastRequests, group_state::InFlight};
use crate::{
    Timestamp,
    rate_limiter::{LatencyEstimate, RateLimitPolicy, RateLimits, WaitReason},
};
use std::time::Duration;

/// Minimum remaining time assumed for a request that exceeds its latency estimate.
const MIN_REMAINING: Duration = Duration::from_millis(50);

/// When the next permit can be granted, regardless of the line.
pub(super) struct Earliest {
    /// Estimated time.
    pub(super) at: Timestamp,
    /// Lower bound, whatever the requests in flight do.
    pub(super) bound: Timestamp,
    pub(super) reason: WaitReason,
}

impl GroupState {
    pub(super) fn earliest(&self, limits: &RateLimits, context: &Context<'_>) -> Earliest {
        let (now, policy) = (self.clock, context.policy);
        let sequential = limits.concurrency == 1;
        let LastRequests { last_start, last_end } = self.last.max(context.earlier);
        let last = if sequential { last_end } else { last_start };
        let mut bound = last.map_or(now, |last| now.max(last + limits.min_delay));
        let (mut at, mut reason) = (bound, WaitReason::MinDelay);
        if let Some(request) = self.blocking_request(limits) {
            let end = self.estimated_end(request, policy);
            at = at.max(if sequential { end + limits.min_delay } else { end });
            reason = WaitReason::Concurrency;
            if sequential {
                bound = bound.max(now + limits.min_delay);
            }
        }
        if let Some(failures) = &self.failures {
            bound = bound.max(failures.until());
            at = at.max(bound);
            reason = failures.why(now).unwrap_or(reason);
        }
        Earliest { at, bound, reason }
    }

    /// The request that has to end before one more can start.
    fn blocking_request(&self, limits: &RateLimits) -> Option<&InFlight> {
        let probe = self.failures.as_ref().and_then(|failures| failures.probe);
        if let Some(request) = self.in_flight.iter().find(|request| Some(request.id) == probe) {
            return Some(request);
        }
        let allowed = usize::try_from(limits.concurrency).unwrap_or(usize::MAX);
        self.in_flight.get(self.in_flight.len().checked_sub(allowed)?)
    }

    /// Estimated end of a request, at most the end of its lease. A request that exceeds the latency estimate is assumed
    /// to take half as long again, so that callers that wait for it ask a few times only.
    fn estimated_end(&self, request: &InFlight, policy: &RateLimitPolicy) -> Timestamp {
        let now = self.clock;
        let estimate = request.started + self.latency(policy);
        let end =
            if estimate > now { estimate } else { now + (now.since(request.started) / 2).max(MIN_REMAINING) };
        end.min(request.until)
    }

    pub(super) fn latency(&self, policy: &RateLimitPolicy) -> Duration {
        self.latency.map_or(policy.initial_latency, LatencyEstimate::upper_bound).min(policy.lease)
    }

    pub(super) fn mean_latency(&self, policy: &RateLimitPolicy) -> Duration {
        self.latency.map_or(policy.initial_latency, LatencyEstimate::mean).min(policy.lease)
    }
}
