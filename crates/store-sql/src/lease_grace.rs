//! Grace period for expired leases: after an outage, or after this process was suspended, workers first get the chance to
//! extend theirs.

use crate::time::after;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// End of the grace period, in milliseconds; `i64::MAX` until leases are first checked after an outage.
#[derive(Debug)]
pub(crate) struct LeaseGrace {
    until: AtomicI64,
    /// Time of the last look.
    last_look: AtomicI64,
    /// Whether a long time without a look means that the process was suspended; not so with a manual clock.
    detects_suspension: bool,
}

impl LeaseGrace {
    /// A shared database may just have come back from an outage, so it starts with a grace period.
    pub(crate) fn new(is_shared: bool, detects_suspension: bool) -> Self {
        let until = AtomicI64::new(if is_shared { i64::MAX } else { 0 });
        Self { until, last_look: AtomicI64::new(i64::MAX), detects_suspension }
    }

    /// Starts a new grace period after a failed call.
    pub(crate) fn restart(&self) {
        self.until.store(i64::MAX, Ordering::Relaxed);
    }

    /// No lease counts as lost before this time: half a lease after the first look, since workers send heartbeats every
    /// third of a lease.
    pub(crate) fn until(&self, now: i64, lease: Duration) -> i64 {
        let latest = after(now, lease / 2);
        let last_look = self.last_look.swap(now, Ordering::Relaxed);
        if self.detects_suspension && after(last_look, lease / 2) < now {
            self.restart();
        }
        self.until.fetch_min(latest, Ordering::Relaxed).min(latest)
    }
}
