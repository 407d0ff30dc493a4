//! Timestamps: milliseconds since the Unix epoch.

use serde::{Deserialize, Serialize};
use std::{
    ops::{Add, Sub},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A point in time, in milliseconds since the Unix epoch. Arithmetic saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The current time of the steady wall clock, which setting the system clock does not affect.
    pub fn now() -> Self {
        crate::steady::now()
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Time elapsed since `earlier`; zero if it is in the future.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let past = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(past.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

/// Rounds up to a whole millisecond, so that no delay ends early.
impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, rhs: Duration) -> Timestamp {
        let millis = rhs.as_nanos().div_ceil(1_000_000);
        Self(self.0.saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, rhs: Duration) -> Timestamp {
        Self(self.0.saturating_sub(u64::try_from(rhs.as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_never_rounds_down_and_never_overflows() {
        let t = Timestamp::from_millis(10);
        assert_eq!(t + Duration::from_micros(1), Timestamp::from_millis(11));
        assert_eq!(t + Duration::MAX, Timestamp::from_millis(u64::MAX));
        assert_eq!(t - Duration::MAX, Timestamp::from_millis(0));
    }
}
