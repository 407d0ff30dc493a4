//! Contract of the store of a shared rate limiter: loading and swapping the states of groups.

use crate::{
    Timestamp,
    rate_limiter::{Group, RateLimiterError, Ticket},
};
use std::fmt::Debug;

/// Load of one group.
#[derive(Debug, Clone)]
pub struct Load {
    /// The group.
    pub group: Group,
    /// Tickets whose places are loaded.
    pub tickets: Vec<Ticket>,
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

/// Swap of the state of one group.
#[derive(Debug, Clone)]
pub struct Swap {
    /// The group.
    pub group: Group,
    /// Version of the loaded state, which must be the same still.
    pub expected: u64,
    /// Time of the load, [`MAX_AGE`](super::MAX_AGE) ago at most.
    pub loaded: Timestamp,
    /// New version, unlike any before.
    pub version: u64,
    /// New state.
    pub state: Vec<u8>,
    /// When the state and the places expire. A state that has expired is removed.
    pub expires: Timestamp,
    /// Places that have changed.
    pub places: Vec<(Ticket, Option<u64>)>,
}

/// Store of the states of groups, with a clock.
#[async_trait::async_trait]
pub trait GroupStore: Debug + Send + Sync + 'static {
    /// Loads the states of groups.
    async fn load(&self, loads: &[Load]) -> Result<Vec<Loaded>, RateLimiterError>;

    /// Swaps the states of groups, each on its own. Returns whether each was swapped.
    async fn swap(&self, swaps: &[Swap]) -> Result<Vec<bool>, RateLimiterError>;

    /// Removes expired states and returns the number of the others.
    async fn count(&self) -> Result<u64, RateLimiterError>;
}
