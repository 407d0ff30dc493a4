//! Answers of the rate limiter, and the outcomes of requests that are reported to it.

use super::Group;
use crate::Timestamp;
use std::time::Duration;

/// Answer to a request for a permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// Send the request now, and finish the permit when the request has ended.
    Granted(Permit),
    /// A slot was reserved: ask again at this time with the same ticket.
    NotBefore {
        /// The time of the slot.
        at: Timestamp,
        /// Why the caller has to wait.
        reason: WaitReason,
    },
}

/// Why a caller has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitReason {
    /// The minimum delay since the last request has not passed, or earlier slots are taken.
    MinDelay,
    /// The concurrency limit is reached.
    Concurrency,
    /// The group is in back-off after a block or a failure.
    Backoff,
    /// The circuit breaker is open. After its cool-down one probe at a time tests the group. A caller that would rather
    /// fail than wait cancels its slot.
    CircuitOpen,
    /// The rate limiter is full and has reserved no slot. Ask again at the given time, which is jittered.
    Overloaded,
}

impl WaitReason {
    /// The reason as text, for trails and errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            WaitReason::MinDelay => "minimum delay since the last request",
            WaitReason::Concurrency => "concurrency limit reached",
            WaitReason::Backoff => "in back-off",
            WaitReason::CircuitOpen => "circuit breaker open",
            WaitReason::Overloaded => "rate limiter full",
        }
    }
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Permit to send one request, held under a lease that ends if its holder crashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// The group of the request.
    pub group: Group,
    /// Id, unique among all permits of this group, also across restarts.
    pub id: u64,
    /// End of the lease, unless the permit is finished or extended before.
    pub until: Timestamp,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// A regular response. Resets the back-off and closes the circuit breaker.
    Success,
    /// The server refuses us for now: 429, 503, a challenge. Counts as a failure.
    Blocked {
        /// `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// The server was unreachable or broke off the response. Counts as a failure.
    Failed,
    /// No statement about the group: the request was cancelled or failed on our side.
    Neutral,
}
