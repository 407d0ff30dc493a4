//! How much is in a queue.

use serde::Serialize;
use std::time::Duration;

/// How much is in a queue, and in which state.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Depth {
    /// Could be delivered now.
    pub ready: u64,
    /// Delivered and not settled, by anyone.
    pub in_flight: u64,
    /// Waits for its time.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest waiting message (ready or delayed) has been published, to the second, if the broker can say. One
    /// that it knows no time of makes it unknown rather than young.
    pub oldest_age: Option<Duration>,
    /// How fast messages come and go, if the broker can say.
    pub rates: Option<Rates>,
    /// Whether the numbers are exact, or a broker's estimate.
    pub exact: bool,
    /// Whether deliveries are paused.
    pub paused: bool,
}

/// How fast messages come and go, on average over the last [`Rates::WINDOW`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    /// Messages a second that were published to the queue. What is replayed, or comes back, is not published.
    pub published: f64,
    /// Deliveries a second that were settled, with whatever verdict.
    pub settled: f64,
}

impl Rates {
    /// How far back rates look: long enough for a broker that counts every five seconds.
    pub const WINDOW: Duration = Duration::from_secs(15);
}

impl Depth {
    /// What has not been taken yet: ready and delayed.
    pub fn waiting(&self) -> u64 {
        self.ready + self.delayed
    }
}
