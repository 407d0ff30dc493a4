//! The gate contract: every request passes the gate of its group first, in whatever process it is made.

mod error;
mod group;
mod jitter;
mod limits;
mod policy;
mod turn;
mod typical;

pub use error::GateError;
pub use group::{Group, GroupError, Ticket};
pub use jitter::Jitter;
pub use limits::{Limits, MAX_GAP};
pub use policy::{BackOff, Breaker, Policy};
pub use turn::{Outcome, Permit, Turn, Why};
pub use typical::Typical;

use crate::Timestamp;
use std::fmt::Debug;

/// The gate of politeness: who may send a request to a group now, and when the others may.
///
/// For each group the gate holds, across all handles on the same state:
///
/// - at most [`Limits::in_flight`] requests at a time;
/// - at least [`Limits::gap`] since the last request, from its end where one at a time is allowed, from its
///   start otherwise;
/// - after a block, the back-off and the circuit breaker of the [`Policy`].
///
/// **Waiting.** Who cannot go is given a slot of its own, which the gate keeps under the caller's [`Ticket`].
/// Slots are a gap apart; where requests take their time and only so many may be in flight, they are as much
/// further apart as the group's requests have lately taken. Who comes back at its slot goes, unless something
/// came in between that nobody could foresee (a slow request, a block): then it keeps its place and is told
/// another time. Coming back early, or asking again, costs nothing and changes nothing. A slot that is not
/// claimed lapses after [`Policy::grace`]; until then it holds up newcomers by no more than its own width.
///
/// **Groups are apart**: whatever happens to one, no other waits for it.
///
/// **Time** is the gate's own clock, in milliseconds. When it is set back, waits stay as long as they were;
/// when it jumps ahead, what was waited for has passed. Neither stops a group for good.
///
/// All methods take `&self` and may be called from any number of tasks. None of them waits for a turn.
#[async_trait::async_trait]
pub trait Gate: Debug + Send + Sync {
    /// What this gate was opened with. Never changes while it is open.
    fn policy(&self) -> &Policy;

    /// Asks for a turn to send one request to this group.
    ///
    /// The limits are the caller's and hold for this call: a group has none of its own, so that whoever
    /// learns of a longer gap (`Crawl-delay`) simply asks with it. After [`Turn::Go`] the ticket stands for
    /// nothing any more and may be used again for a next request.
    async fn reserve(&self, group: &Group, ticket: Ticket, limits: &Limits) -> Result<Turn, GateError>;

    /// Gives back a slot that will not be claimed, as when an item is given up. No slot, no effect.
    async fn leave(&self, group: &Group, ticket: Ticket) -> Result<(), GateError>;

    /// Ends a request and says how it went. [`GateError::Fenced`] means that the permit was finished or lost
    /// before: this outcome had no effect.
    async fn finish(&self, permit: &Permit, outcome: Outcome) -> Result<(), GateError>;

    /// Gives each permit a new lease of [`Policy::lease`] from now on and says when it ends; one answer per
    /// permit, in order.
    async fn extend(&self, permits: &[Permit]) -> Vec<Result<Timestamp, GateError>>;

    /// How many groups the gate keeps in mind at this moment, after forgetting those that it may forget: idle,
    /// past their gap and their back-off. Costs as much as there is to forget.
    async fn tracked(&self) -> Result<u64, GateError>;
}
