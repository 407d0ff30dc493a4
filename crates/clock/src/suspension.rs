//! Suspensions of the process: SIGSTOP, a debugger, a frozen container. Time-outs fire at its end that say nothing about others.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often the watch looks.
const TICK: Duration = Duration::from_millis(500);
/// Without a look for so long the process was suspended. A machine that is merely busy lets a thread run sooner.
const SUSPENDED: Duration = Duration::from_secs(3);

/// Thread that looks at the clock, and what it saw; times are milliseconds since it started.
struct Watch {
    started: Instant,
    looked: AtomicU64,
    /// The end of the last suspension; zero if there was none.
    ended: AtomicU64,
}

impl Watch {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn look(&self) {
        let now = self.now();
        let before = self.looked.swap(now, Ordering::Relaxed);
        if is_suspension(before, now) {
            self.ended.store(now, Ordering::Relaxed);
        }
    }
}

fn is_suspension(looked: u64, now: u64) -> bool {
    u128::from(now.saturating_sub(looked)) > SUSPENDED.as_millis()
}

/// The watch, started by the first call.
fn watch() -> &'static Watch {
    static WATCH: OnceLock<Watch> = OnceLock::new();
    static THREAD: OnceLock<bool> = OnceLock::new();
    let watch = WATCH.get_or_init(|| Watch {
        started: Instant::now(),
        looked: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    });
    THREAD.get_or_init(|| {
        let looking = || {
            loop {
                thread::sleep(TICK);
                watch.look();
            }
        };
        thread::Builder::new().name("suspension-watch".to_owned()).spawn(looking).is_ok()
    });
    watch
}

/// Starts the watch. What happened before is not known.
pub fn watch_for_suspensions() {
    watch();
}

/// Whether the process was suspended at some time since then, or is just going on.
pub fn was_suspended_since(began: Instant) -> bool {
    let watch = watch();
    let began = u64::try_from(began.saturating_duration_since(watch.started).as_millis()).unwrap_or(u64::MAX);
    let ended = watch.ended.load(Ordering::Relaxed);
    (ended > 0 && ended >= began)
        || is_suspension(watch.looked.load(Ordering::Relaxed).max(began), watch.now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_looks_is_a_suspension_for_those_who_began_before_its_end() {
        assert!(!was_suspended_since(Instant::now()), "it runs");
        assert!(!is_suspension(1_000, 4_000));
        assert!(is_suspension(1_000, 4_001));
        let watch = Watch { started: Instant::now(), looked: AtomicU64::new(0), ended: AtomicU64::new(0) };
        watch.look();
        assert_eq!(watch.ended.load(Ordering::Relaxed), 0);
    }
}
