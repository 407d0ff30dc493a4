//! Queue depth and message rates.

use serde::Serialize;
use std::time::Duration;

/// Number of messages in a queue, by state.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Depth {
    /// Deliverable now.
    pub ready: u64,
    /// Delivered and not settled, over all consumers.
    pub in_flight: u64,
    /// Pending until a later time.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Age of the oldest pending message (ready or delayed), in whole seconds. `None` if the broker cannot tell, or
    /// if one message has no known publish time.
    pub oldest_age: Option<Duration>,
    /// Message rates, if the broker measures them.
    pub rates: Option<Rates>,
    /// Whether the numbers are exact; otherwise they are estimates.
    pub exact: bool,
    /// Whether deliveries are paused.
    pub paused: bool,
}

/// Message rates: moving averages over [`Rates::WINDOW`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Published messages per second. Replays and redeliveries do not count.
    pub published: f64,
    /// Settled deliveries per second, of any verdict.
    pub settled: f64,
}

impl Rates {
    /// Length of the averaging window: long enough for a broker that samples every five seconds.
    pub const WINDOW: Duration = Duration::from_secs(15);
}

impl Depth {
    /// Number of pending messages: ready and delayed.
    pub fn pending(&self) -> u64 {
        self.ready + self.delayed
    }
}
