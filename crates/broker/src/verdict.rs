//! Verdicts of consumers, and their outcomes.

use crate::Timestamp;
use std::time::Duration;

/// Verdict of a consumer on a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Acknowledge: the work is done.
    Done,
    /// Nack with a delay: the attempt failed. Counts as an attempt; after the last one the message is a dead letter.
    Retry {
        /// Minimum delay before the next attempt.
        after: Duration,
        /// Error text, kept as the first and last error of the message.
        error: String,
    },
    /// Put the message back, ready at once, even into a full queue. Counts no attempt: the caller bounds repetition
    /// itself.
    Requeue,
    /// Deliver again at a later time. Counts no attempt.
    Defer {
        /// Earliest time of the next delivery.
        until: Timestamp,
    },
    /// Reject: no further attempt can succeed, so the message becomes a dead letter.
    Dead {
        /// Explanation in words.
        reason: String,
    },
}

/// Outcome of a settled delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleOutcome {
    /// Acknowledged and removed.
    Done,
    /// Pending for its next attempt.
    Retrying {
        /// Number of the next attempt, from 2.
        attempt: u32,
    },
    /// Back in its queue.
    Requeued,
    /// Pending until its time.
    Deferred,
    /// A dead letter, by verdict or after the last attempt.
    Dead,
}
