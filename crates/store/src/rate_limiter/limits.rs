//! Concurrency and minimum delay of a group.

use super::{Group, RateLimiterError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum of [`RateLimits::min_delay`]. A longer delay is a mistake that would look like a stopped group.
pub const MAX_MIN_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Rate limits of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateLimits {
    /// Maximum number of concurrent requests, at least 1.
    #[serde(rename = "in_flight")]
    pub concurrency: u32,
    /// Minimum delay since the last request: since its end where `concurrency` is 1, since its start otherwise.
    #[serde(rename = "gap")]
    pub min_delay: Duration,
}

impl RateLimits {
    /// One request at a time, with this minimum delay between the end of one and the start of the next.
    pub const fn one_at_a_time(min_delay: Duration) -> Self {
        Self { concurrency: 1, min_delay }
    }

    /// The same limits with at least this minimum delay.
    pub fn with_min_delay(self, min_delay: Duration) -> Self {
        Self { min_delay: self.min_delay.max(min_delay), ..self }
    }

    /// Interval between slots at this latency, so that each slot is free when its time comes.
    pub fn slot_interval(&self, latency: Duration) -> Duration {
        if self.concurrency == 1 {
            self.min_delay + latency
        } else {
            self.min_delay.max(latency / self.concurrency)
        }
    }

    /// Validates the limits. Every backend calls this first.
    pub fn check(&self, group: &Group) -> Result<(), RateLimiterError> {
        let problem = if self.concurrency == 0 {
            "concurrency is 0, so that no request could ever be sent; use 1 or more".to_owned()
        } else if self.min_delay > MAX_MIN_DELAY {
            format!("a minimum delay of {:?} is too long; use {MAX_MIN_DELAY:?} or less", self.min_delay)
        } else {
            return Ok(());
        };
        Err(RateLimiterError::InvalidLimits { group: group.clone(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_delay_is_raised_but_never_lowered() {
        let limits = RateLimits::one_at_a_time(Duration::from_secs(2));
        assert_eq!(limits.with_min_delay(Duration::from_secs(5)).min_delay, Duration::from_secs(5));
        assert_eq!(limits.with_min_delay(Duration::from_secs(1)), limits);
    }
}
