//! Time that a set clock does not disturb: the wall clock is read once, and from then on the time since boot is added.
//!
//! Leases, delays and deadlines compare times with each other. If the system's clock is set while the process runs, all of them
//! keep their distance; what the process shows as the time of day follows at its next start. What was stored by an earlier
//! process is moved by [`Anchor::step_since`].

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    sync::OnceLock,
    time::{Duration, SystemTime},
};

/// The variable by which a test moves the wall clock of a process, in milliseconds. Only debug builds heed it.
pub const OFFSET_VARIABLE: &str = "CLOCK_OFFSET_OF_CRAWLWAY";

/// Nanoseconds of a millisecond.
const NANOS: i128 = 1_000_000;

/// How much the wall clock may differ from the time since boot without having been set: drift that is corrected slowly.
const DRIFT_MS: u64 = 2_000;

/// How the wall clock stood to the time since boot when a process started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Identifies the boot of the machine; empty where it cannot be told.
    pub boot: String,
    /// The wall clock less the time since boot, in milliseconds.
    pub offset: i64,
}

impl Anchor {
    /// The anchor of this process.
    pub fn of_this_process() -> &'static Self {
        &base().anchor
    }

    /// By how many milliseconds the wall clock was set since an earlier anchor of the same boot: what was stored then is to be moved
    /// by as much. Zero after a reboot, when nothing can be told.
    pub fn step_since(&self, earlier: &Self) -> i64 {
        let step = self.offset.saturating_sub(earlier.offset);
        let known = !self.boot.is_empty() && self.boot == earlier.boot;
        if known && step.unsigned_abs() > DRIFT_MS { step } else { 0 }
    }
}

/// How the wall clock stood when the process started.
struct Base {
    anchor: Anchor,
    /// The offset of the anchor in nanoseconds, so that this clock and the wall change their millisecond at the same time.
    offset: i128,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let offset = nanos(wall) - nanos(since_boot()) + i128::from(moved()) * NANOS;
        let anchor = Anchor { boot: boot_id(), offset: i64::try_from(offset / NANOS).unwrap_or(0) };
        Base { anchor, offset }
    })
}

/// The wall clock as it would be had it not been set since the process started.
pub(crate) fn now() -> Timestamp {
    let millis = (base().offset + nanos(since_boot())) / NANOS;
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// By how much a test has moved the clock.
fn moved() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    std::env::var(OFFSET_VARIABLE).ok().and_then(|moved| moved.parse().ok()).unwrap_or(0)
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

/// The time since the machine was started, suspension included.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time since this was first asked: enough within a process.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static FIRST: OnceLock<std::time::Instant> = OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(target_os = "linux")]
fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(boot: &str, offset: i64) -> Anchor {
        Anchor { boot: boot.to_owned(), offset }
    }

    #[test]
    fn a_step_is_told_within_one_boot_and_beyond_drift() {
        let earlier = anchor("a", 1_700_000_000_000);
        let hour = 3_600_000;
        assert_eq!(anchor("a", earlier.offset - hour).step_since(&earlier), -hour);
        assert_eq!(anchor("a", earlier.offset + hour).step_since(&earlier), hour);
        assert_eq!(anchor("a", earlier.offset + 1_999).step_since(&earlier), 0, "drift");
        assert_eq!(anchor("b", earlier.offset - hour).step_since(&earlier), 0, "another boot");
        assert_eq!(anchor("", 0).step_since(&anchor("", hour)), 0, "unknown boots");
    }

    #[test]
    fn the_time_is_that_of_the_wall_and_goes_on() {
        let wall = Timestamp::from(SystemTime::now()).as_millis();
        let first = now();
        assert!(first.as_millis().abs_diff(wall) < 60_000, "{first:?} at {wall}");
        assert!(now() >= first);
    }
}
