//! Errors as outcomes: what a caller can do something about. Backends convert their own into these.

use crate::{Aspect, ExchangeName, QueueName};

/// Why a call on a queue as a whole failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No queue of this name was declared.
    #[error("unknown queue `{queue}`{}; declare it first", listed(.known))]
    UnknownQueue {
        /// The queue that was asked for.
        queue: QueueName,
        /// Some that exist, nearest first.
        known: Vec<QueueName>,
    },
    /// The spec asks for what no broker can do.
    #[error("queue `{queue}`: {problem}")]
    InvalidSpec {
        /// The queue.
        queue: QueueName,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The spec asks for what this broker cannot honour.
    #[error("queue `{queue}` asks for {aspect}, which this broker cannot honour: {why}")]
    Refused {
        /// The queue.
        queue: QueueName,
        /// What cannot be honoured.
        aspect: Aspect,
        /// Why, and what to use instead.
        why: String,
    },
    /// The queue exists, but otherwise.
    #[error("queue `{queue}` exists with other settings: {difference}")]
    Mismatch {
        /// The queue.
        queue: QueueName,
        /// Setting by setting, what exists and what was asked for, and what to do.
        difference: String,
    },
    /// The broker or its disk cannot be reached or used right now.
    #[error("broker unavailable: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// The broker was closed.
    #[error("broker is closed")]
    Closed,
}

/// Why one message was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// No queue of this name was declared.
    #[error("unknown queue `{queue}`{}; declare it first", listed(.known))]
    UnknownQueue {
        /// The queue that was published to.
        queue: QueueName,
        /// Some that exist, nearest first.
        known: Vec<QueueName>,
    },
    /// No queue is bound to this topic.
    #[error("no queue is bound to topic `{topic}` of exchange `{exchange}`")]
    Unroutable {
        /// The exchange.
        exchange: ExchangeName,
        /// The topic.
        topic: String,
    },
    /// The queue has reached its limit; publish again when it has drained.
    #[error("queue `{queue}` is full: its limit is {limit} waiting messages")]
    QueueFull {
        /// The full queue.
        queue: QueueName,
        /// Its limit.
        limit: u64,
    },
    /// The message is larger than the broker takes.
    #[error("message `{id}` has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// The message.
        id: String,
        /// Its size in bytes, headers included.
        size: u64,
        /// The largest size that is taken.
        limit: u64,
    },
    /// Something about the message is not allowed by the contract.
    #[error("message `{id}`: {problem}")]
    Invalid {
        /// The message.
        id: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// Not accepted, because the broker or its disk cannot be used right now; publish again later.
    #[error("not published: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// The broker did not say. The message may have arrived: publish it again under the same id.
    #[error("no confirmation: {detail}")]
    Unknown {
        /// What happened.
        detail: String,
    },
    /// The broker was closed.
    #[error("broker is closed")]
    Closed,
}

impl PublishError {
    /// Whether publishing the same message again later can succeed without anyone changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::Unavailable { .. } | Self::Unknown { .. })
    }
}

/// Why a verdict had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The lease was lost before: the message is, or was, somebody else's.
    #[error("fenced: the lease on this delivery of queue `{queue}` was lost")]
    Fenced {
        /// The queue it came from.
        queue: QueueName,
    },
    /// The verdict could not be stored. The delivery is still the receiver's, with its lease renewed:
    /// settle again.
    #[error("not settled: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// The broker was closed.
    #[error("broker is closed")]
    Closed,
}

fn listed(known: &[QueueName]) -> String {
    if known.is_empty() {
        return String::new();
    }
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!(" (known: {})", names.join(", "))
}
