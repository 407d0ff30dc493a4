//! Sessions: openings of a broker by a process, with a lease.

use super::MessageKey;
use crate::StoreError;
use std::{fmt, time::Duration};

/// Policy of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPolicy {
    /// Lease of a session. A crash is noticed that much later, and a solo crash counted.
    pub session_lease: Duration,
    /// How long a replay has to publish its letters and to end, before another one can begin.
    pub replay_lease: Duration,
    /// How long the trace of a closed letter, the history of a message and a lost session are kept after their last change.
    /// At least as long as the broker keeps a message: then no message that is dropped or was replayed runs again.
    pub retention: Duration,
}

impl Default for LedgerPolicy {
    fn default() -> Self {
        Self {
            session_lease: Duration::from_secs(30),
            replay_lease: Duration::from_secs(60),
            // SQS keeps a message for 14 days at most.
            retention: Duration::from_secs(15 * 24 * 60 * 60),
        }
    }
}

impl LedgerPolicy {
    /// Validates the policy. Every backend calls this first.
    pub fn check(&self) -> Result<(), StoreError> {
        const SECOND: Duration = Duration::from_secs(1);
        let times = [("session_lease", self.session_lease), ("replay_lease", self.replay_lease)];
        let problem = if let Some((name, time)) = times.into_iter().find(|(_, time)| *time < SECOND) {
            format!("{name} of the ledger is {time:?}; use 1s or more")
        } else if self.retention < self.session_lease.max(self.replay_lease) {
            format!("retention of the ledger is {:?}, shorter than its leases", self.retention)
        } else {
            return Ok(());
        };
        Err(StoreError::Invalid { problem })
    }
}

/// Id of a session, unique among all processes and times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub String);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A session that was declared lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostSession {
    /// The session.
    pub session: SessionId,
    /// Its process, as named when it was opened.
    pub worker: String,
    /// Messages that it had in flight, sorted: each is suspect by one more lost worker.
    pub suspects: Vec<MessageKey>,
}
