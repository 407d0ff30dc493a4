//! Detection of process suspensions: SIGSTOP, a debugger, a frozen container. Timeouts that fire right after one are
//! not the fault of a peer.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval of the watchdog.
const TICK_INTERVAL: Duration = Duration::from_millis(500);
/// Minimum gap between two ticks that counts as a suspension. On a busy machine the gap stays below it.
const MIN_SUSPENSION: Duration = Duration::from_secs(3);

/// State of the watchdog thread, in milliseconds since its start.
struct Watchdog {
    started: Instant,
    last_tick: AtomicU64,
    /// End of the last suspension; zero if there was none.
    last_end: AtomicU64,
}

impl Watchdog {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn tick(&self) {
        let now = self.now();
        let previous = self.last_tick.swap(now, Ordering::Relaxed);
        if is_suspension(previous, now) {
            self.last_end.store(now, Ordering::Relaxed);
        }
    }
}

fn is_suspension(last_tick: u64, now: u64) -> bool {
    u128::from(now.saturating_sub(last_tick)) > MIN_SUSPENSION.as_millis()
}

/// The watchdog, started on first use.
fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    static THREAD: OnceLock<bool> = OnceLock::new();
    let watchdog = WATCHDOG.get_or_init(|| Watchdog {
        started: Instant::now(),
        last_tick: AtomicU64::new(0),
        last_end: AtomicU64::new(0),
    });
    THREAD.get_or_init(|| {
        let run = || {
            loop {
                thread::sleep(TICK_INTERVAL);
                watchdog.tick();
            }
        };
        thread::Builder::new().name("suspension-watchdog".to_owned()).spawn(run).is_ok()
    });
    watchdog
}

/// Starts the watchdog. Earlier suspensions are not detected.
pub fn watch_for_suspensions() {
    watchdog();
}

/// Whether the process was suspended since this time.
pub fn was_suspended_since(since: Instant) -> bool {
    let watchdog = watchdog();
    let since =
        u64::try_from(since.saturating_duration_since(watchdog.started).as_millis()).unwrap_or(u64::MAX);
    let last_end = watchdog.last_end.load(Ordering::Relaxed);
    (last_end > 0 && last_end >= since)
        || is_suspension(watchdog.last_tick.load(Ordering::Relaxed).max(since), watchdog.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_gap_between_ticks_is_a_suspension() {
        assert!(!was_suspended_since(Instant::now()), "it runs");
        assert!(!is_suspension(1_000, 4_000));
        assert!(is_suspension(1_000, 4_001));
        let watchdog =
            Watchdog { started: Instant::now(), last_tick: AtomicU64::new(0), last_end: AtomicU64::new(0) };
        watchdog.tick();
        assert_eq!(watchdog.last_end.load(Ordering::Relaxed), 0);
    }
}
