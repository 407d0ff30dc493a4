//! Settings of a stage in the runner.

use crawlway_broker::QueueName;
use crawlway_clock::Backoff;
use std::time::Duration;

/// Default of [`Settings::max_defer`].
pub const MAX_DEFER: Duration = Duration::from_secs(30);

/// Concurrency, batching, retries and shutdown of a stage.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum number of items that run at the same time.
    pub concurrency: usize,
    /// Maximum number of items that the stage gets together.
    pub batch: usize,
    /// Maximum wait of an incomplete batch for more items.
    pub linger: Duration,
    /// Maximum number of items that are published, recorded and settled together.
    pub finish_batch: usize,
    /// Delays between the attempts of an item.
    pub retry: Backoff,
    /// Maximum deferral. An item deferred for longer is attempted earlier, in case the reason for the deferral ends earlier.
    pub max_defer: Duration,
    /// Maximum duration of the drain at shutdown. Unfinished items are then handed back.
    pub drain: Duration,
    /// Back-pressure from a downstream queue.
    pub backpressure: Option<Backpressure>,
    /// Whether the trail of an item ends with this stage although it publishes the item: the next stage has trails of its own.
    pub ends_trail: bool,
}

/// Back-pressure: nothing is received while the downstream queue is too long.
#[derive(Debug, Clone)]
pub struct Backpressure {
    /// Queue that the stage publishes to.
    pub queue: QueueName,
    /// Maximum number of pending messages in it.
    pub max_pending: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            batch: 1,
            linger: Duration::from_millis(200),
            finish_batch: 256,
            retry: Backoff::new(Duration::from_secs(1), Duration::from_secs(300)),
            max_defer: MAX_DEFER,
            drain: Duration::from_secs(20),
            backpressure: None,
            ends_trail: false,
        }
    }
}
