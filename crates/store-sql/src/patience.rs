//! How long leases that have ended are not taken for lost: in an outage their holders could not extend them.

use crate::time::after;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// Until when this process is patient with the holders of leases; the end of time while nobody has looked
/// since an outage.
#[derive(Debug)]
pub(crate) struct Patience(AtomicI64);

impl Patience {
    /// Who comes to a database that others use may come after an outage.
    pub(crate) fn new(is_shared: bool) -> Self {
        Self(AtomicI64::new(if is_shared { i64::MAX } else { 0 }))
    }

    /// A call has failed.
    pub(crate) fn failed(&self) {
        self.0.store(i64::MAX, Ordering::Relaxed);
    }

    /// Until when no lease is taken for lost: half a lease from the first look after an outage, since the
    /// heartbeats of workers come every third of one.
    pub(crate) fn until(&self, now: i64, lease: Duration) -> i64 {
        let latest = after(now, lease / 2);
        self.0.fetch_min(latest, Ordering::Relaxed).min(latest)
    }
}
