//! Queues as programs see them.

use crawlway_broker::{Depth, MaxLength, QueueSpec};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// All queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueList {
    /// In order of name.
    pub queues: Vec<Queue>,
}

/// A queue: how much is in it, and its spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Could be delivered now.
    pub ready: u64,
    /// Delivered and not settled.
    pub in_flight: u64,
    /// Waits for its time.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest message that waits has been there, if the broker can say.
    pub oldest_age_ms: Option<u64>,
    /// Messages a second that were published to it lately, if the broker can say.
    pub published_per_s: Option<f64>,
    /// Deliveries a second that were settled lately, with whatever verdict, if the broker can say.
    pub settled_per_s: Option<f64>,
    /// Whether the numbers are exact, or a broker's estimate.
    pub exact: bool,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// How many deliveries one process may hold unsettled.
    pub prefetch: u32,
    /// How long a delivery is its worker's before it comes back.
    pub lease_ms: u64,
    /// How many attempts an item gets.
    pub max_attempts: u32,
    /// How many messages may wait; null for any number.
    pub max_length: Option<Limit>,
    /// Whether messages of one group are delivered in order, one at a time.
    pub groups: bool,
    /// Which topics flow into it.
    pub bindings: Vec<Binding>,
}

/// Whether a queue is paused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// The queue.
    pub queue: String,
    /// Whether its deliveries are paused now.
    pub paused: bool,
}

/// What was thrown away of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Purged {
    /// The queue.
    pub queue: String,
    /// How many messages that waited were thrown away.
    pub purged: u64,
}

/// How many messages may wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// From this number on publishes are rejected.
    pub limit: u64,
    /// By how many the limit may be overshot; 0 when it is exact.
    pub slack: u64,
}

/// Routes what is published on an exchange into a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// The topics that match.
    pub pattern: String,
}

impl Queue {
    /// A queue of this spec with so much in it.
    pub fn new(spec: QueueSpec, depth: Depth) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self {
            name: spec.name.to_string(),
            ready: depth.ready,
            in_flight: depth.in_flight,
            delayed: depth.delayed,
            dead: depth.dead,
            oldest_age_ms: depth.oldest_age.map(millis),
            published_per_s: depth.rates.map(|rates| rates.published),
            settled_per_s: depth.rates.map(|rates| rates.settled),
            exact: depth.exact,
            paused: depth.paused,
            prefetch: spec.prefetch,
            lease_ms: millis(spec.lease),
            max_attempts: spec.max_attempts,
            max_length: spec.max_length.map(|max| Limit {
                limit: max.limit(),
                slack: match max {
                    MaxLength::Exact(_) => 0,
                    MaxLength::Approximate { slack, .. } => slack,
                },
            }),
            groups: spec.groups,
            bindings: spec
                .bindings
                .into_iter()
                .map(|binding| Binding {
                    exchange: binding.exchange.to_string(),
                    pattern: binding.pattern.to_string(),
                })
                .collect(),
        }
    }
}
