//! What a gate answers, and what it is told afterwards.

use super::Group;
use crate::Timestamp;
use std::time::Duration;

/// The answer to who asks for a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Send the request now, and finish the permit when it has ended.
    Go(Permit),
    /// Not yet. A slot is kept for the caller: ask again at this time with the same ticket.
    NotBefore {
        /// When the caller's slot is.
        at: Timestamp,
        /// Why not now.
        why: Why,
    },
}

/// Why somebody has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The gap since the last request has not passed, or others are first.
    Pace,
    /// As many requests as allowed are in flight.
    Busy,
    /// The group blocked us and is left alone for a while.
    BackOff,
    /// The circuit breaker is open: the group failed too often in a row, and one probe at a time finds out
    /// whether it is back. Who would rather give up than wait leaves its slot.
    Open,
    /// The gate is full; it keeps no slot for the caller. Come back at the time told, which is spread.
    Crowded,
}

impl Why {
    /// The reason in words, for an item's trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Why::Pace => "waits for its turn",
            Why::Busy => "waits for requests in flight",
            Why::BackOff => "the group blocked us and is left alone",
            Why::Open => "the breaker of the group is open",
            Why::Crowded => "the gate is full",
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Leave to send one request: a lease, which frees itself when its holder dies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// The group that the request is for.
    pub group: Group,
    /// Unlike that of any other permit of this group, those of before a restart included.
    pub id: u64,
    /// When the place is given to somebody else, unless the permit is finished or extended before.
    pub until: Timestamp,
}

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered as it should be. Ends back-off and breaker.
    Success,
    /// We are not wanted right now: 429, 503, a challenge. Counts as a failure.
    Blocked {
        /// How long the group asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The group could not be reached, or broke off. Counts as a failure.
    Failed,
    /// It says nothing about the group: given up by us, or a fault of our own.
    Neutral,
}
