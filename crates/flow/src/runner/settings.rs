//! How much a stage does at a time, and how long it waits.

use crawlway_broker::QueueName;
use std::time::Duration;

/// The longest deferral, unless a stage is wired with another.
pub const MAX_DEFER: Duration = Duration::from_secs(30);

/// How much a stage does at a time, and how long it waits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many items are worked on at once.
    pub at_once: usize,
    /// How many items are handed to the stage together.
    pub batch: usize,
    /// How long a batch that is not full waits for more.
    pub linger: Duration,
    /// How many items are published, noted and settled together, at most.
    pub finish_together: usize,
    /// How long an item waits after its first failed attempt; doubled each time.
    pub first_retry: Duration,
    /// The longest such wait.
    pub last_retry: Duration,
    /// The longest deferral. An item whose turn is later comes back to ask again, so that it sees in time that its turn
    /// came earlier.
    pub max_defer: Duration,
    /// How long what is in flight may take once the stop is requested. What has not ended then is handed back.
    pub drain: Duration,
    /// Stop taking while this queue is full.
    pub hold_back: Option<HoldBack>,
}

/// A queue further down that must not grow for ever.
#[derive(Debug, Clone)]
pub struct HoldBack {
    /// The queue that the stage publishes to.
    pub queue: QueueName,
    /// How many items may wait there.
    pub most: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            at_once: 16,
            batch: 1,
            linger: Duration::from_millis(200),
            finish_together: 256,
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(300),
            max_defer: MAX_DEFER,
            drain: Duration::from_secs(20),
            hold_back: None,
        }
    }
}

impl Settings {
    /// How long an item waits after its so-manieth failed attempt.
    pub(super) fn retry_after(&self, attempt: u32) -> Duration {
        retry_delay(self.first_retry, attempt, self.last_retry)
    }
}

/// The delay after the so-manieth failed attempt: the first one, doubled each time up to the longest.
pub fn retry_delay(first: Duration, attempt: u32, longest: Duration) -> Duration {
    let factor = 1u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let settings = Settings::default();
        let seconds: Vec<u64> =
            [1, 2, 3, 9, 10, 64, u32::MAX].map(|n| settings.retry_after(n).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 256, 300, 300, 300]);
    }
}
