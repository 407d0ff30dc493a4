//! How a delivery ends: what the receiver asks for, and what became of it.

use crate::Timestamp;
use std::time::Duration;

/// What is to become of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The work is done; the message is never needed again.
    Done,
    /// The attempt failed: deliver again after a while. Counts as an attempt; after the last one the
    /// message is dead.
    Retry {
        /// How long to wait at least.
        after: Duration,
        /// What went wrong, for the dead letter's first and last error.
        error: String,
    },
    /// Put it back into its queue, to be delivered again by whoever asks next: always taken, a full queue's limit
    /// included. Counts nothing, so that whoever asks for it counts by itself and ends it.
    Requeue,
    /// It is not this message's turn: deliver again at this time. Counts nothing.
    Defer {
        /// When to deliver again at the earliest.
        until: Timestamp,
    },
    /// No further attempt can help: set aside as a dead letter.
    Dead {
        /// Why.
        reason: String,
    },
}

/// What became of a delivery whose verdict was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Gone for good.
    Done,
    /// Waits for its next attempt, which has this number.
    Retrying {
        /// 2 after the first failure.
        attempt: u32,
    },
    /// Is back in its queue, as if nobody had taken it.
    Requeued,
    /// Waits for its turn.
    Deferred,
    /// Is a dead letter now, be it by verdict or because it was the last attempt.
    Dead,
}
