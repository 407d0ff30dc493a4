//! Policy of the rate limiter: leases, back-off, circuit breaker and bounds of its memory.

use super::{Jitter, RateLimiterError};
use crawlway_clock::Backoff;
use std::time::Duration;

/// Policy of the rate limiter, the same for all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitPolicy {
    /// Lease of a permit, unless it is extended.
    pub lease: Duration,
    /// How long after its time a slot can still be used.
    pub grace: Duration,
    /// How much later than the group may be free a caller comes back at most, whatever its expected turn, since the group
    /// may have become faster.
    pub max_defer: Duration,
    /// Back-off after failures.
    pub backoff: BackoffPolicy,
    /// Maximum `Retry-After` that is respected.
    pub max_retry_after: Duration,
    /// Circuit breaker; `None` for no breaker.
    pub breaker: Option<CircuitBreakerPolicy>,
    /// Latency estimate of a group before its first success. If it is too short, items come back too early; if it is
    /// too long, the first slots are further apart than necessary.
    pub initial_latency: Duration,
    /// TTL of an idle group, so that its latency estimate is kept between requests.
    pub idle_ttl: Duration,
    /// TTL of the failures of a group after its back-off.
    pub failure_ttl: Duration,
    /// Maximum number of groups in the state. Beyond it new groups wait until an old one can be removed, since
    /// removing one early would break its minimum delay.
    pub max_groups: usize,
    /// Maximum number of slots of one group. Beyond it callers get no slot and come back later.
    pub max_slots: usize,
}

impl Default for RateLimitPolicy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            max_defer: Duration::from_secs(30),
            backoff: BackoffPolicy::default(),
            max_retry_after: Duration::from_secs(60 * 60),
            breaker: Some(CircuitBreakerPolicy::default()),
            initial_latency: Duration::from_millis(500),
            idle_ttl: Duration::from_secs(60),
            failure_ttl: Duration::from_secs(10 * 60),
            max_groups: 2_000_000,
            max_slots: 10_000,
        }
    }
}

impl RateLimitPolicy {
    /// Validates the policy. Every backend calls this first.
    pub fn check(&self) -> Result<(), RateLimiterError> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let BackoffPolicy { first, max, jitter_percent } = self.backoff;
        let times = [
            ("lease", self.lease),
            ("grace", self.grace),
            ("max_defer", self.max_defer),
            ("backoff.max", max),
            ("max_retry_after", self.max_retry_after),
            ("breaker.max", self.breaker.map_or(Duration::ZERO, |breaker| breaker.max)),
            ("initial_latency", self.initial_latency),
            ("idle_ttl", self.idle_ttl),
            ("failure_ttl", self.failure_ttl),
        ];
        let problem = if let Some((name, time)) = times.into_iter().find(|(_, time)| *time > DAY) {
            format!("{name} is {time:?}; use a day or less")
        } else if self.lease < Duration::from_secs(1) {
            format!("lease is {:?}, too short to send a request in; use 1s or more", self.lease)
        } else if self.max_defer < Duration::from_millis(100) {
            format!("max_defer is {:?}, so that callers would poll; use 100ms or more", self.max_defer)
        } else if first > max {
            format!("backoff.first is {first:?}, more than backoff.max, which is {max:?}")
        } else if jitter_percent > 100 {
            format!("backoff.jitter_percent is {jitter_percent}; use 0 to 100")
        } else if self.breaker.is_some_and(|breaker| breaker.failure_threshold == 0) {
            "breaker.failure_threshold is 0, so that the breaker would never close; use 1 or more, or no breaker"
                .to_owned()
        } else if self.breaker.is_some_and(|breaker| breaker.cooldown > breaker.max) {
            "breaker.cooldown is more than breaker.max".to_owned()
        } else if self.max_groups == 0 || self.max_slots == 0 {
            "max_groups or max_slots is 0, so that no caller could wait; use 1 or more".to_owned()
        } else {
            return Ok(());
        };
        Err(RateLimiterError::InvalidPolicy { problem })
    }
}

/// Exponential back-off of a group after failures: doubled each time, jittered, capped, reset by a success.
///
/// Failures of requests that started before the last counted failure belong to it and are not counted again. A success
/// of such a request resets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// Delay after the first failure.
    pub first: Duration,
    /// Maximum delay, jitter included.
    pub max: Duration,
    /// Jitter in percent, either way.
    pub jitter_percent: u32,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self { first: Duration::from_secs(5), max: Duration::from_secs(300), jitter_percent: 20 }
    }
}

impl BackoffPolicy {
    /// Delay after this many failures in a row.
    pub fn delay(&self, failures: u32, jitter: &Jitter) -> Duration {
        let delay = Backoff::new(self.first, self.max).delay(failures);
        jitter.around(delay, self.jitter_percent).min(self.max)
    }
}

/// Circuit breaker of a group: closed, open, half-open.
///
/// After a number of failures in a row the breaker is open for the cool-down. Then one request is let through as a
/// probe: its success closes the breaker, its failure opens it for twice as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerPolicy {
    /// Number of failures in a row that opens the breaker.
    pub failure_threshold: u32,
    /// Cool-down after the first opening.
    pub cooldown: Duration,
    /// Maximum cool-down.
    pub max: Duration,
}

impl Default for CircuitBreakerPolicy {
    fn default() -> Self {
        Self { failure_threshold: 10, cooldown: Duration::from_secs(600), max: Duration::from_secs(3600) }
    }
}

impl CircuitBreakerPolicy {
    /// Cool-down after this many openings in a row.
    pub fn delay(&self, openings: u32) -> Duration {
        Backoff::new(self.cooldown, self.max).delay(openings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_policy_is_refused_by_the_name_of_its_field() {
        assert_eq!(RateLimitPolicy::default().check(), Ok(()));
        let policy = RateLimitPolicy { lease: Duration::ZERO, ..RateLimitPolicy::default() };
        assert!(policy.check().unwrap_err().to_string().contains("lease is 0ns"));
        let policy = RateLimitPolicy { failure_ttl: Duration::MAX, ..RateLimitPolicy::default() };
        assert!(policy.check().unwrap_err().to_string().contains("failure_ttl"));
    }
}
