//! How long leases that have ended are not taken for lost: in an outage, or while this process was suspended, their holders could not
//! extend them.

use crate::time::after;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// Until when this process is patient with the holders of leases; the end of time while nobody has looked
/// since an outage.
#[derive(Debug)]
pub(crate) struct Patience {
    until: AtomicI64,
    /// When was last looked.
    looked: AtomicI64,
    /// A long time without a look means that the process was suspended, and not that a test has moved its clock.
    notices_freezes: bool,
}

impl Patience {
    /// Who comes to a database that others use may come after an outage.
    pub(crate) fn new(is_shared: bool, notices_freezes: bool) -> Self {
        let until = AtomicI64::new(if is_shared { i64::MAX } else { 0 });
        Self { until, looked: AtomicI64::new(i64::MAX), notices_freezes }
    }

    /// A call has failed.
    pub(crate) fn failed(&self) {
        self.until.store(i64::MAX, Ordering::Relaxed);
    }

    /// Until when no lease is taken for lost: half a lease from the first look after an outage, since the
    /// heartbeats of workers come every third of one.
    pub(crate) fn until(&self, now: i64, lease: Duration) -> i64 {
        let latest = after(now, lease / 2);
        let looked = self.looked.swap(now, Ordering::Relaxed);
        if self.notices_freezes && after(looked, lease / 2) < now {
            self.failed();
        }
        self.until.fetch_min(latest, Ordering::Relaxed).min(latest)
    }
}
