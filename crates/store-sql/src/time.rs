//! The time that all processes on one database agree on.

use crawlway_clock::{Clock, Timestamp};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

/// How long a measurement of the server's clock is good for.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// A clock, set by the server's where there is one.
#[derive(Debug)]
pub(crate) struct Time {
    clock: Clock,
    /// How many milliseconds the server is ahead of us.
    ahead: AtomicI64,
    measured: Mutex<Option<Instant>>,
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, ahead: AtomicI64::new(0), measured: Mutex::new(None) }
    }

    /// Now, in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        millis(self.clock.now()).saturating_add(self.ahead.load(Ordering::Relaxed))
    }

    /// Whether the server should be asked again; says so once per measurement. A manual clock counts as it is.
    pub(crate) fn is_stale(&self) -> bool {
        if matches!(self.clock, Clock::Manual(_)) {
            return false;
        }
        let mut measured = self.measured.lock();
        if measured.is_some_and(|at| at.elapsed() < GOOD_FOR) {
            return false;
        }
        *measured = Some(Instant::now());
        true
    }

    /// The server said this when asked between these two times of ours. A slow answer says too little to replace
    /// an earlier one that agrees with it.
    pub(crate) fn measured(&self, before: i64, server: i64, after: i64) {
        let ahead = server - (before + after) / 2;
        let unsure = (after - before) / 2;
        if (ahead - self.ahead.load(Ordering::Relaxed)).abs() > unsure {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// The time, where it is not the server's to say.
    pub(crate) fn told(&self) -> Option<i64> {
        match &self.clock {
            Clock::Manual(clock) => Some(millis(clock.now())),
            _ => None,
        }
    }

    /// Our own clock, in milliseconds.
    pub(crate) fn local(&self) -> i64 {
        millis(self.clock.now())
    }
}

pub(crate) fn millis(time: Timestamp) -> i64 {
    whole(time.as_millis())
}

/// A number as the database stores it; those that are too large all mean "for ever".
pub(crate) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The end of a span from now, rounded up.
pub(crate) fn after(now: i64, span: Duration) -> i64 {
    millis(timestamp(now) + span)
}

pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
}
