//! Concurrency and minimum delay of a group.

use super::{GateError, Group};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum of [`Limits::gap`]. A longer delay is a mistake that would look like a stopped group.
pub const MAX_GAP: Duration = Duration::from_secs(24 * 60 * 60);

/// Rate limits of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of concurrent requests, at least 1.
    pub in_flight: u32,
    /// Minimum delay since the last request: since its end where `in_flight` is 1, since its start otherwise.
    pub gap: Duration,
}

impl Limits {
    /// One request at a time, with this minimum delay between the end of one and the start of the next.
    pub const fn one_at_a_time(gap: Duration) -> Self {
        Self { in_flight: 1, gap }
    }

    /// The same limits with at least this minimum delay.
    pub fn with_gap_of_at_least(self, gap: Duration) -> Self {
        Self { gap: self.gap.max(gap), ..self }
    }

    /// Interval between slots at this latency, so that each slot is free when its time comes.
    pub fn slot_interval(&self, latency: Duration) -> Duration {
        if self.in_flight == 1 { self.gap + latency } else { self.gap.max(latency / self.in_flight) }
    }

    /// Validates the limits. Every backend calls this first.
    pub fn check(&self, group: &Group) -> Result<(), GateError> {
        let problem = if self.in_flight == 0 {
            "in_flight is 0, so that no request could ever be sent; use 1 or more".to_owned()
        } else if self.gap > MAX_GAP {
            format!("a minimum delay of {:?} is too long; use {MAX_GAP:?} or less", self.gap)
        } else {
            return Ok(());
        };
        Err(GateError::InvalidLimits { group: group.clone(), problem })
    }
}
