//! Policy of the rate limiter: leases, back-off, circuit breaker and bounds of its memory.

use super::{GateError, Jitter};
use crawlway_clock::Backoff;
use std::time::Duration;

/// Policy of the rate limiter, the same for all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Lease of a permit, unless it is extended.
    pub lease: Duration,
    /// How long after its time a slot can still be used.
    pub grace: Duration,
    /// Back-off after failures.
    pub back_off: BackOff,
    /// Maximum `Retry-After` that is respected.
    pub longest_retry_after: Duration,
    /// Circuit breaker; `None` for no breaker.
    pub breaker: Option<Breaker>,
    /// Latency estimate of a group before its first success. If it is too short, items come back too early; if it is
    /// too long, the first slots are further apart than necessary.
    pub first_guess: Duration,
    /// TTL of an idle group, so that its latency estimate is kept between requests.
    pub idle: Duration,
    /// TTL of the failures of a group after its back-off.
    pub grudge: Duration,
    /// Maximum number of groups in the state. Beyond it new groups wait until an old one can be removed, since
    /// removing one early would break its minimum delay.
    pub most_groups: usize,
    /// Maximum number of slots of one group. Beyond it callers get no slot and come back later.
    pub longest_line: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            back_off: BackOff::default(),
            longest_retry_after: Duration::from_secs(60 * 60),
            breaker: Some(Breaker::default()),
            first_guess: Duration::from_millis(500),
            idle: Duration::from_secs(60),
            grudge: Duration::from_secs(10 * 60),
            most_groups: 2_000_000,
            longest_line: 10_000,
        }
    }
}

impl Policy {
    /// Validates the policy. Every backend calls this first.
    pub fn check(&self) -> Result<(), GateError> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let BackOff { first, most, jitter_percent } = self.back_off;
        let times = [
            ("lease", self.lease),
            ("grace", self.grace),
            ("back_off.most", most),
            ("longest_retry_after", self.longest_retry_after),
            ("breaker.most", self.breaker.map_or(Duration::ZERO, |breaker| breaker.most)),
            ("first_guess", self.first_guess),
            ("idle", self.idle),
            ("grudge", self.grudge),
        ];
        let problem = if let Some((name, time)) = times.into_iter().find(|(_, time)| *time > DAY) {
            format!("{name} is {time:?}; use a day or less")
        } else if self.lease < Duration::from_secs(1) {
            format!("lease is {:?}, too short to send a request in; use 1s or more", self.lease)
        } else if first > most {
            format!("back_off.first is {first:?}, more than back_off.most, which is {most:?}")
        } else if jitter_percent > 100 {
            format!("back_off.jitter_percent is {jitter_percent}; use 0 to 100")
        } else if self.breaker.is_some_and(|breaker| breaker.failures == 0) {
            "breaker.failures is 0, so that the breaker would never close; use 1 or more, or no breaker"
                .to_owned()
        } else if self.breaker.is_some_and(|breaker| breaker.cool_down > breaker.most) {
            "breaker.cool_down is more than breaker.most".to_owned()
        } else if self.most_groups == 0 || self.longest_line == 0 {
            "most_groups or longest_line is 0, so that no caller could wait; use 1 or more".to_owned()
        } else {
            return Ok(());
        };
        Err(GateError::InvalidPolicy { problem })
    }
}

/// Exponential back-off of a group after failures: doubled each time, jittered, capped, reset by a success.
///
/// Failures of requests that started before the last counted failure belong to it and are not counted again. A success
/// of such a request resets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackOff {
    /// Delay after the first failure.
    pub first: Duration,
    /// Maximum delay, jitter included.
    pub most: Duration,
    /// Jitter in percent, either way.
    pub jitter_percent: u32,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first: Duration::from_secs(5), most: Duration::from_secs(300), jitter_percent: 20 }
    }
}

impl BackOff {
    /// Delay after this many failures in a row.
    pub fn delay(&self, failures: u32, jitter: &Jitter) -> Duration {
        let delay = Backoff::new(self.first, self.most).delay(failures);
        jitter.around(delay, self.jitter_percent).min(self.most)
    }
}

/// Circuit breaker of a group: closed, open, half-open.
///
/// After a number of failures in a row the breaker is open for the cool-down. Then one request is let through as a
/// probe: its success closes the breaker, its failure opens it for twice as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Number of failures in a row that opens the breaker.
    pub failures: u32,
    /// Cool-down after the first opening.
    pub cool_down: Duration,
    /// Maximum cool-down.
    pub most: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { failures: 10, cool_down: Duration::from_secs(600), most: Duration::from_secs(3600) }
    }
}

impl Breaker {
    /// Cool-down after this many openings in a row.
    pub fn delay(&self, openings: u32) -> Duration {
        Backoff::new(self.cool_down, self.most).delay(openings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_policy_is_refused_by_the_name_of_its_field() {
        assert_eq!(Policy::default().check(), Ok(()));
        let policy = Policy { lease: Duration::ZERO, ..Policy::default() };
        assert!(policy.check().unwrap_err().to_string().contains("lease is 0ns"));
        let policy = Policy { grudge: Duration::MAX, ..Policy::default() };
        assert!(policy.check().unwrap_err().to_string().contains("grudge"));
    }
}
