//! Database time: the local clock, corrected to the server's, so that all processes agree.

use crawlway_clock::{Clock, Timestamp};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

/// Time between two measurements of the server's clock.
const MEASURE_INTERVAL: Duration = Duration::from_secs(60);

/// Local clock with its offset to the server's.
#[derive(Debug)]
pub(crate) struct Time {
    clock: Clock,
    /// Server time minus local time, in milliseconds.
    offset: AtomicI64,
    measured: Mutex<Option<Instant>>,
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, offset: AtomicI64::new(0), measured: Mutex::new(None) }
    }

    /// Database time in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        self.local().saturating_add(self.offset.load(Ordering::Relaxed))
    }

    /// Whether the offset should be measured; true once per interval, never for a manual clock.
    pub(crate) fn is_stale(&self) -> bool {
        if matches!(self.clock, Clock::Manual(_)) {
            return false;
        }
        let mut measured = self.measured.lock();
        if measured.is_some_and(|at| at.elapsed() < MEASURE_INTERVAL) {
            return false;
        }
        *measured = Some(Instant::now());
        true
    }

    /// Takes a measurement: the server's time, asked between two local times. It replaces the offset only if it differs by
    /// more than its error, half the round trip.
    pub(crate) fn measured(&self, before: i64, server: i64, after: i64) {
        let offset = server - (before + after) / 2;
        let error = (after - before) / 2;
        if (offset - self.offset.load(Ordering::Relaxed)).abs() > error {
            self.offset.store(offset, Ordering::Relaxed);
        }
    }

    /// Time of a manual clock, which replaces the server's in tests.
    #[cfg(feature = "postgresql")]
    pub(crate) fn manual_now(&self) -> Option<i64> {
        match &self.clock {
            Clock::Manual(clock) => Some(millis(clock.now())),
            _ => None,
        }
    }

    /// Local time in milliseconds.
    pub(crate) fn local(&self) -> i64 {
        millis(self.clock.now())
    }
}

pub(crate) fn millis(time: Timestamp) -> i64 {
    saturating_i64(time.as_millis())
}

/// A number as the database stores it; `i64::MAX` stands for every larger one.
pub(crate) fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The end of a time span from now, rounded up.
pub(crate) fn after(now: i64, span: Duration) -> i64 {
    millis(timestamp(now) + span)
}

pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
}
