//! Rules of the rate limiter: pure functions on the state of one group, the same in every backend.
//!
//! ```text
//! decide(state of a group, now, request) ─▶ new state, answer
//! ```
//!
//! A backend loads the state of a group, calls [`decide`], and stores the new state before it hands out the answer. The state
//! has a bounded size ([`GroupState::encode`]), whatever the number of callers that wait.
//!
//! **Places in line.** A caller that must wait gets a number. The backend stores it under the caller's ticket and passes it
//! with the next request of that ticket. The state has the times at which the holders of the first [`WINDOW`] numbers come
//! back; those behind them are only counted. A permit is granted when the group is free, unless the holder of a lower number
//! is due, so that a higher number takes idle time and nothing else. The holder of a number comes back at its expected turn,
//! or after [`RateLimitPolicy::max_defer`] if that is earlier, since the group may be faster by then. A number whose holder
//! does not come within [`RateLimitPolicy::grace`] is passed over.

mod codec;
mod estimate;
mod failures;
mod group_state;
mod line;

pub use failures::FailureRecord;
pub use group_state::{CLOCK_TOLERANCE, GroupState};
pub use line::WINDOW;

use super::{Jitter, RateLimitPolicy, RateLimits, RequestOutcome, WaitReason};
use crate::Timestamp;

/// Maximum number of requests in flight in one group. A greater [`RateLimits::concurrency`] counts as this one, since the
/// state has an entry for each request in flight.
pub const MAX_CONCURRENCY: u32 = 1024;

/// Upper bounds of the last requests that the state of a group may not know about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LastRequests {
    /// Start of the last request.
    pub last_start: Option<Timestamp>,
    /// End of the last request.
    pub last_end: Option<Timestamp>,
}

impl LastRequests {
    /// Requests until this time.
    pub const fn until(time: Timestamp) -> Self {
        Self { last_start: Some(time), last_end: Some(time) }
    }

    /// The later times of both.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            last_start: self.last_start.max(other.last_start),
            last_end: self.last_end.max(other.last_end),
        }
    }
}

/// Circumstances of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The time.
    pub now: Timestamp,
    /// The policy.
    pub policy: &'a RateLimitPolicy,
    /// Random numbers.
    pub jitter: &'a Jitter,
    /// Requests before the state, which may have been lost.
    pub earlier: LastRequests,
    /// Permits granted before this time are valid within their first lease, although the state does not have them.
    pub lost_before: Option<Timestamp>,
    /// Lower bound of the id of a new permit.
    pub min_id: u64,
}

/// Request to the state of a group.
#[derive(Debug, Clone, Copy)]
pub enum Request {
    /// For a permit, with the place of the ticket.
    Reserve {
        /// Place of an earlier answer.
        place: Option<u64>,
        /// The limits.
        limits: RateLimits,
    },
    /// The place will not be used.
    Cancel {
        /// Place of an earlier answer.
        place: Option<u64>,
    },
    /// End of a request.
    Finish {
        /// Id of the permit.
        id: u64,
        /// The outcome.
        outcome: RequestOutcome,
    },
    /// Renewal of a lease.
    Extend {
        /// Id of the permit.
        id: u64,
    },
    /// Failures that an earlier version has recorded, for a group without failures.
    Restore(FailureRecord),
}

/// Answer to a [`Request`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A permit; the ticket has no place any more.
    Granted {
        /// Id of the permit.
        id: u64,
        /// End of its lease.
        until: Timestamp,
    },
    /// A wait.
    Wait {
        /// Place to be stored under the ticket; none if the line is full.
        place: Option<u64>,
        /// When to ask again.
        at: Timestamp,
        /// Why.
        reason: WaitReason,
    },
    /// The ticket has no place any more.
    Cancelled,
    /// The request has ended, or the failures are restored.
    Finished,
    /// New end of the lease.
    Extended(Timestamp),
    /// The permit was finished, or its lease was lost.
    Fenced,
}

impl Answer {
    /// Place to be stored under the ticket.
    pub const fn place(&self) -> Option<u64> {
        match self {
            Self::Wait { place, .. } => *place,
            _ => None,
        }
    }
}

/// Decides about a request. A group without a state has had no request, as far as the backend knows.
pub fn decide(state: Option<GroupState>, request: Request, context: &Context<'_>) -> (GroupState, Answer) {
    let mut state = state.unwrap_or_else(|| GroupState::new(context.now, context.jitter));
    let answer = state.decide(request, context);
    (state, answer)
}
