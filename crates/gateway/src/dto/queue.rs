//! JSON of queues.

use crawlway_broker::{Depth, MaxLength, Ordering, QueueSpec};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};
use utoipa::ToSchema;

/// List of queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueList {
    /// Queues in order of name.
    pub queues: Vec<Queue>,
    /// Queues whose broker does not respond, while others do. Absent if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableQueue>,
}

/// Queue whose broker does not respond.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UnavailableQueue {
    /// Name.
    pub name: String,
    /// Why its depth is unknown.
    pub reason: String,
}

impl fmt::Display for UnavailableQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue `{}`: {}", self.name, self.reason)
    }
}

/// Queue with its depth and spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Name.
    pub name: String,
    /// Messages ready for delivery.
    pub ready: u64,
    /// Messages delivered and not settled.
    pub in_flight: u64,
    /// Messages delayed until later.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
    /// Age of the oldest pending message; null if the broker cannot tell.
    pub oldest_age_ms: Option<u64>,
    /// Rate of published messages; null if the broker cannot tell.
    pub published_per_s: Option<f64>,
    /// Rate of settled deliveries, with any verdict; null if the broker cannot tell.
    pub settled_per_s: Option<f64>,
    /// Whether the counts are exact; false for estimates.
    pub exact: bool,
    /// Whether deliveries are paused.
    pub paused: bool,
    /// Maximum number of unsettled deliveries per process.
    pub prefetch: u32,
    /// Duration of a lease, after which a delivery is returned to the queue.
    pub lease_ms: u64,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Maximum number of pending messages; null for no limit.
    pub max_length: Option<Limit>,
    /// Order of delivery.
    pub ordering: QueueOrdering,
    /// Bindings to exchanges.
    pub bindings: Vec<Binding>,
}

/// Pause state of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// Queue.
    pub queue: String,
    /// Whether deliveries are paused.
    pub paused: bool,
}

/// Result of a purge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Purged {
    /// Queue.
    pub queue: String,
    /// Number of removed messages.
    pub purged: u64,
}

/// Maximum length of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// Number of pending messages from which publishes are rejected.
    pub limit: u64,
    /// Number of messages by which the limit may be exceeded; 0 for an exact limit.
    pub slack: u64,
}

/// Binding of a queue to an exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Binding {
    /// Exchange.
    pub exchange: String,
    /// Topic pattern.
    pub pattern: String,
}

/// Order in which the messages of a queue are delivered: `none`, `per_group` (in order within a group) or `fifo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrdering {
    /// No order is promised.
    None,
    /// In order within a group, one message in flight per group.
    PerGroup,
    /// In order, one message in flight.
    Fifo,
}

impl From<Ordering> for QueueOrdering {
    fn from(ordering: Ordering) -> Self {
        match ordering {
            Ordering::None => Self::None,
            Ordering::PerGroup => Self::PerGroup,
            Ordering::Fifo => Self::Fifo,
        }
    }
}

impl Queue {
    /// Queue with this spec and depth.
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
            ordering: spec.ordering.into(),
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
