//! Points in time in milliseconds, and the clock they are read from: the system's, or one moved by hand.

use serde::{Deserialize, Serialize};
use std::{
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A point in time, in milliseconds since the Unix epoch. Saturates instead of overflowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The system's clock.
    pub fn now() -> Self {
        let past = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(past.as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// How long `earlier` is past, zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Rounds up to a whole millisecond, so that nothing falls due early.
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

/// Where a store takes the time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The system's clock.
    #[default]
    System,
    /// A clock that stands still until it is moved.
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// The time now.
    pub fn now(&self) -> Timestamp {
        match self {
            Clock::System => Timestamp::now(),
            Clock::Manual(clock) => clock.now(),
        }
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows this time.
    pub fn at(time: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(time.as_millis())))
    }

    /// The time shown.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Makes the clock show this time, which may well be an earlier one.
    pub fn set(&self, time: Timestamp) {
        self.0.store(time.as_millis(), Ordering::SeqCst);
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
