//! Steady wall clock: read once at process start, then advanced by the time since boot.
//!
//! Setting the system clock therefore does not affect leases, delays and deadlines of a running process; the new time of
//! day is used after a restart. [`Anchor::step_since`] tells by how much to shift stored times.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    sync::OnceLock,
    time::{Duration, SystemTime},
};

/// Environment variable that offsets the wall clock of a process, in milliseconds. For tests; debug builds only.
pub const OFFSET_VARIABLE: &str = "CLOCK_OFFSET_OF_CRAWLWAY";

/// Nanoseconds per millisecond.
const NANOS_PER_MILLI: i128 = 1_000_000;

/// Maximum difference between wall clock and time since boot that counts as drift, in milliseconds.
const MAX_DRIFT_MS: u64 = 2_000;

/// Relation of the wall clock to the time since boot, at process start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Boot id of the machine; empty if unknown.
    pub boot: String,
    /// Wall clock minus time since boot, in milliseconds.
    pub offset: i64,
}

impl Anchor {
    /// The anchor of this process.
    pub fn current() -> &'static Self {
        &base().anchor
    }

    /// Milliseconds by which the wall clock was set since an earlier anchor. Stored times must be shifted by as much.
    /// Zero after a reboot, when it is unknown.
    pub fn step_since(&self, earlier: &Self) -> i64 {
        let step = self.offset.saturating_sub(earlier.offset);
        let known = !self.boot.is_empty() && self.boot == earlier.boot;
        if known && step.unsigned_abs() > MAX_DRIFT_MS { step } else { 0 }
    }
}

/// Wall clock at process start.
struct Base {
    anchor: Anchor,
    /// Offset of the anchor in nanoseconds, so that both clocks change their millisecond at the same moment.
    offset: i128,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let offset = nanos(wall) - nanos(since_boot()) + i128::from(test_offset()) * NANOS_PER_MILLI;
        let anchor = Anchor { boot: boot_id(), offset: i64::try_from(offset / NANOS_PER_MILLI).unwrap_or(0) };
        Base { anchor, offset }
    })
}

/// Time of the steady wall clock, which ignores changes of the system clock since process start.
pub(crate) fn now() -> Timestamp {
    let millis = (base().offset + nanos(since_boot())) / NANOS_PER_MILLI;
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Offset set by a test, in milliseconds.
fn test_offset() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    std::env::var(OFFSET_VARIABLE).ok().and_then(|offset| offset.parse().ok()).unwrap_or(0)
}

fn nanos(span: Duration) -> i128 {
    i128::try_from(span.as_nanos()).unwrap_or(i128::MAX)
}

/// Time since boot, including suspension.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Time since the first call, as a substitute for the time since boot.
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
    fn a_step_is_detected_within_one_boot_and_beyond_drift() {
        let earlier = anchor("a", 1_700_000_000_000);
        let hour = 3_600_000;
        assert_eq!(anchor("a", earlier.offset - hour).step_since(&earlier), -hour);
        assert_eq!(anchor("a", earlier.offset + hour).step_since(&earlier), hour);
        assert_eq!(anchor("a", earlier.offset + 1_999).step_since(&earlier), 0, "drift");
        assert_eq!(anchor("b", earlier.offset - hour).step_since(&earlier), 0, "another boot");
        assert_eq!(anchor("", 0).step_since(&anchor("", hour)), 0, "unknown boots");
    }

    #[test]
    fn the_time_follows_the_wall_clock() {
        let wall = Timestamp::from(SystemTime::now()).as_millis();
        let first = now();
        assert!(first.as_millis().abs_diff(wall) < 60_000, "{first:?} at {wall}");
        assert!(now() >= first);
    }
}
