//! How much a group is asked to bear.

use super::{GateError, Group};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest gap that can be asked for. A longer one is a mistake that would look like a stopped group.
pub const MAX_GAP: Duration = Duration::from_secs(24 * 60 * 60);

/// How much a group is asked to bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// At most so many requests at a time, 1 at least.
    pub in_flight: u32,
    /// At least so long since the last one: from its end where `in_flight` is 1, from its start otherwise.
    pub gap: Duration,
}

impl Limits {
    /// One request at a time, with this gap between the end of one and the start of the next.
    pub const fn one_at_a_time(gap: Duration) -> Self {
        Self { in_flight: 1, gap }
    }

    /// The same limits with at least this gap, as when the group asks for one itself.
    pub fn with_gap_of_at_least(self, gap: Duration) -> Self {
        Self { gap: self.gap.max(gap), ..self }
    }

    /// Whether a gate can hold these; every backend asks this first.
    pub fn check(&self, group: &Group) -> Result<(), GateError> {
        let problem = if self.in_flight == 0 {
            "in_flight is 0, so that nobody could ever go; use 1 or more".to_owned()
        } else if self.gap > MAX_GAP {
            format!("a gap of {:?} is too long; use {MAX_GAP:?} or less", self.gap)
        } else {
            return Ok(());
        };
        Err(GateError::InvalidLimits { group: group.clone(), problem })
    }
}
