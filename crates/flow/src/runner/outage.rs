//! Waiting while something of ours is out of order: longer each time, and never past the end of the drain.

use crate::Stop;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(15);

/// How long something of ours has been out of order.
#[derive(Debug, Default)]
pub(super) struct Outage(AtomicU32);

impl Outage {
    /// It is out of order once more: how long to wait this time.
    pub(super) fn again(&self) -> Duration {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.rest()
    }

    /// How long to wait since it was last out of order; zero if it works.
    pub(super) fn rest(&self) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            times => FIRST.saturating_mul(1u32.checked_shl(times - 1).unwrap_or(u32::MAX)).min(LONGEST),
        }
    }

    /// It works.
    pub(super) fn over(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Waits until it is worth another try. Says false when the drain is over, and no further try is wanted.
    pub(super) async fn wait(&self, stop: &Stop, drain: Duration) -> bool {
        if stop.is_over_since(drain) {
            return false;
        }
        let wait = self.again();
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = stop.over_since(drain) => true,
        }
    }
}
