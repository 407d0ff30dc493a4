//! State that survives the process: when its last requests can have been, and the failures of groups.
//!
//! The rate limiter must keep its limits across any end of the process, including a kill. The [`Watermark`] bounds the
//! times of requests for all groups at once; the [`FailureLog`] has the groups in back-off. After a start every group
//! waits a minimum delay from the watermark, or from the start where that is earlier: a watermark far in the future, from
//! a wrong clock, costs one minimum delay and no more. Only a power cut loses data, namely what the operating system had
//! not written yet.

use super::{
    failure_log::FailureLog,
    watermark::{Bounds, Stored, Watermark},
};
use crawlway_lock::{DirectoryLock, LockError};
use crawlway_store::{
    Group, RateLimitPolicy, RateLimiterError, Timestamp,
    rate_limiter::rules::{FailureRecord, LastRequests},
};
use parking_lot::Mutex;
use std::{fs, io, path::Path};

/// Locked directory with the state of a rate limiter.
#[derive(Debug)]
pub(super) struct Persistence {
    watermark: Watermark,
    failures: Mutex<FailureLog>,
    earlier: Mutex<LastRequests>,
    // The last field, so that the lock is released after all writes.
    _lock: DirectoryLock,
}

/// The same times, but none of them in the future.
fn not_after(LastRequests { last_start, last_end }: LastRequests, now: Timestamp) -> LastRequests {
    let earlier = |time: Timestamp| time.min(now);
    LastRequests { last_start: last_start.map(earlier), last_end: last_end.map(earlier) }
}

impl Persistence {
    /// Locks the directory, which is created if it is missing. Returns the greatest permit id of earlier processes too.
    pub(super) fn open(
        directory: &Path,
        now: Timestamp,
        policy: &RateLimitPolicy,
    ) -> Result<(Self, u64), RateLimiterError> {
        fs::create_dir_all(directory).map_err(|error| unavailable("make", directory, &error))?;
        let lock = DirectoryLock::acquire(directory).map_err(|error| lock_failed(directory, &error))?;
        let (watermark, stored) = Watermark::open(directory, policy.lease)?;
        let (earlier, max_id) = match stored {
            Stored::Missing => (LastRequests::default(), 0),
            Stored::Corrupt => {
                tracing::warn!(
                    directory = %directory.display(),
                    "the watermark of the rate limiter is corrupt, so that every group waits one minimum delay from now on"
                );
                (LastRequests::until(now), 0)
            }
            Stored::Bounds(Bounds { max_start, max_end, max_id }) => {
                let stored = LastRequests { last_start: Some(max_start), last_end: Some(max_end) };
                (not_after(stored, now), max_id)
            }
        };
        if let LastRequests { last_start: Some(max_start), last_end: Some(max_end) } = earlier {
            // The earlier process has ended by now, so that the next one need not wait any longer.
            watermark.write_exact(Bounds { max_start, max_end, max_id });
        }
        let failures = Mutex::new(FailureLog::open(directory, now, policy.failure_ttl)?);
        Ok((Self { watermark, failures, earlier: Mutex::new(earlier), _lock: lock }, max_id))
    }

    /// Groups with stored failures.
    pub(super) fn failures(&self) -> Vec<(Group, FailureRecord)> {
        self.failures.lock().records().map(|(group, record)| (group.clone(), *record)).collect()
    }

    /// Upper bounds of the requests of earlier processes.
    pub(super) fn earlier(&self, now: Timestamp) -> LastRequests {
        let mut earlier = self.earlier.lock();
        // Follows a clock that was set back, once and for all groups.
        *earlier = not_after(*earlier, now);
        *earlier
    }

    /// Makes sure that the next process takes this permit into account.
    pub(super) fn cover(&self, until: Timestamp, id: u64) {
        self.watermark.cover(until, id);
    }

    /// Records the failures of a group.
    pub(super) fn write(&self, group: &Group, record: Option<FailureRecord>, now: Timestamp) {
        self.failures.lock().write(group, record, now);
    }

    /// Writes the exact state at a clean end.
    pub(super) fn close(&self, last: LastRequests, max_id: u64, now: Timestamp) {
        let last = last.max(self.earlier(now));
        self.failures.lock().close(now);
        if let LastRequests { last_start: Some(max_start), last_end: Some(max_end) } = last {
            self.watermark.write_exact(Bounds { max_start, max_end, max_id });
        }
    }
}

fn lock_failed(directory: &Path, error: &LockError) -> RateLimiterError {
    let holder = match error {
        LockError::Io { doing, path, error } => return unavailable(doing, path, error),
        LockError::InUse { holder } => holder.map(|id| format!(" with id {id}")).unwrap_or_default(),
    };
    RateLimiterError::Unavailable {
        detail: format!(
            "directory `{}` is in use by another process{holder}; stop that process, or use another directory",
            directory.display()
        ),
    }
}

pub(super) fn unavailable(doing: &str, path: &Path, error: &io::Error) -> RateLimiterError {
    RateLimiterError::Unavailable {
        detail: format!(
            "cannot {doing} `{}`: {error}; check its permissions, or use another directory",
            path.display()
        ),
    }
}
