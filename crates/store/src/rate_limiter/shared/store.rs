//! Contract of the store of a shared rate limiter: it keeps the states of groups and swaps them if they are unchanged.

use crate::{
    Timestamp,
    rate_limiter::{Group, RateLimiterError, Ticket},
};
use std::{fmt::Debug, time::Duration};

/// Swap of the state of one group, or its load.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// The group.
    pub group: Group,
    /// Tickets whose places are compared, loaded and set.
    pub tickets: Vec<Ticket>,
    /// The swap; `None` for a load.
    pub swap: Option<Swap>,
}

/// Swap of the state of one group, which fails if anything differs from what it was decided on.
#[derive(Debug, Clone)]
pub struct Swap {
    /// Expected version; 0 without a state.
    pub expected: u64,
    /// Expected [`Loaded::since`].
    pub since: Timestamp,
    /// Time of the decision, not after the time of the store.
    pub decided: Timestamp,
    /// Maximum age of the decision.
    pub max_age: Duration,
    /// New version, unlike any before.
    pub version: u64,
    /// New state.
    pub state: Vec<u8>,
    /// When the state and the places expire. A state that has expired is removed.
    pub expires: Timestamp,
    /// Expected and new place of each ticket.
    pub places: Vec<(Option<u64>, Option<u64>)>,
}

/// Result of an [`Exchange`].
#[derive(Debug, Clone)]
pub enum Exchanged {
    /// The new state is stored.
    Swapped {
        /// Time of the store.
        now: Timestamp,
    },
    /// Nothing was changed, because of another process or because it was a load.
    Loaded(Loaded),
}

/// State of one group in the store.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Time of the store.
    pub now: Timestamp,
    /// Since when the store has its data: everything before may be lost.
    pub since: Timestamp,
    /// Version of the state; 0 without a state.
    pub version: u64,
    /// The state.
    pub state: Vec<u8>,
    /// Place of each ticket.
    pub places: Vec<Option<u64>>,
}

/// Store of the states of groups, with a clock.
#[async_trait::async_trait]
pub trait GroupStore: Debug + Send + Sync + 'static {
    /// Swaps or loads the states of groups in one round trip, each on its own.
    async fn exchange(&self, exchanges: &[Exchange]) -> Result<Vec<Exchanged>, RateLimiterError>;

    /// Removes expired states and returns the number of the others.
    async fn count(&self) -> Result<u64, RateLimiterError>;

    /// Time of a test's clock, which jumps; `None` with a real clock.
    fn test_now(&self) -> Option<Timestamp>;
}
