//! How much is in a queue.

use serde::Serialize;
use std::time::Duration;

/// How much is in a queue, and in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Depth {
    /// Could be delivered now.
    pub ready: u64,
    /// Delivered and not settled, by anyone.
    pub in_flight: u64,
    /// Waits for its time.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest waiting message (ready or delayed) has been published, if the broker can say.
    pub oldest_age: Option<Duration>,
    /// Whether the numbers are exact, or a broker's estimate.
    pub exact: bool,
    /// Whether deliveries are paused.
    pub paused: bool,
}

impl Depth {
    /// What has not been taken yet: ready and delayed.
    pub fn waiting(&self) -> u64 {
        self.ready + self.delayed
    }
}
