//! The rate limiter contract: every request needs a permit for its group, whichever process sends it.

mod error;
mod group;
mod jitter;
mod latency;
mod limits;
mod policy;
mod reservation;
pub mod rules;
pub mod shared;

pub use error::RateLimiterError;
pub use group::{Group, GroupError, Ticket};
pub use jitter::Jitter;
pub use latency::LatencyEstimate;
pub use limits::{MAX_MIN_DELAY, RateLimits};
pub use policy::{BackoffPolicy, CircuitBreakerPolicy, RateLimitPolicy};
pub use reservation::{Permit, RequestOutcome, Reservation, WaitReason};

use crate::Timestamp;
use std::fmt::Debug;

/// Rate limiter for requests, per group.
///
/// For each group, and across all handles on the same state, it enforces:
///
/// - the concurrency [`RateLimits::concurrency`];
/// - the minimum delay [`RateLimits::min_delay`]: since the end of the last request at a concurrency of 1, since its start
///   otherwise;
/// - after failures, the back-off and the circuit breaker of the [`RateLimitPolicy`].
///
/// **Slots.** A caller that must wait gets a slot: a place in line, stored under its [`Ticket`], and the time of its expected
/// turn. Slots are a minimum delay apart, or further where the concurrency limit and the latency of the group require it. A
/// caller that asks again at its slot gets a permit, unless a slow request or a block has delayed the group; it then keeps
/// its place and gets a later time. Asking early or repeatedly has no effect. A caller is told to come back no later than
/// [`RateLimitPolicy::max_defer`] after the group may be free, so that it notices when the group has become faster. A later
/// caller gets a permit first only if no earlier one is due. An unused slot expires after [`RateLimitPolicy::grace`]; until
/// then it delays newcomers by its own length at most.
///
/// **Isolation.** No group delays another.
///
/// **Time** is the clock of the limiter, in milliseconds. If it is set back, remaining delays keep their length; if it
/// jumps ahead, they end. Neither stops a group for good.
///
/// All methods take `&self` and may be called from any number of tasks. None of them blocks until a permit is free.
#[async_trait::async_trait]
pub trait RateLimiter: Debug + Send + Sync {
    /// The policy that the limiter was opened with.
    fn policy(&self) -> &RateLimitPolicy;

    /// Requests a permit to send one request to this group.
    ///
    /// The limits apply to this call only. The limiter stores none for a group, so that a caller with a longer minimum
    /// delay (`Crawl-delay`) just passes it. After [`Reservation::Granted`] the ticket may be reused for a further request.
    async fn reserve(
        &self,
        group: &Group,
        ticket: Ticket,
        limits: &RateLimits,
    ) -> Result<Reservation, RateLimiterError>;

    /// Cancels a slot that will not be used, for example of an item that was given up. No effect without a slot.
    async fn cancel(&self, group: &Group, ticket: Ticket) -> Result<(), RateLimiterError>;

    /// Ends a request with its outcome. [`RateLimiterError::Fenced`] means that the permit had been finished or its lease
    /// lost; the outcome had no effect.
    async fn finish(&self, permit: &Permit, outcome: RequestOutcome) -> Result<(), RateLimiterError>;

    /// Renews the lease of each permit to [`RateLimitPolicy::lease`] from now. Returns the new end of each lease, in order.
    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, RateLimiterError>>;

    /// Number of groups in the state, after removal of those that are idle and past their minimum delay and back-off.
    /// Its cost grows with the number of groups to be removed.
    async fn tracked_groups(&self) -> Result<u64, RateLimiterError>;
}
