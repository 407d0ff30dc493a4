//! Errors of the contract, one per outcome that a caller can act on. Backends convert their own errors to these.

use crate::{Aspect, ExchangeName, QueueName};

/// Error of an operation on a queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The queue is not declared.
    #[error("unknown queue `{queue}`{}; declare it first", suggestions(.known))]
    UnknownQueue {
        /// The missing queue.
        queue: QueueName,
        /// Existing queues with a similar name, nearest first.
        known: Vec<QueueName>,
    },
    /// The spec is invalid on every broker.
    #[error("queue `{queue}`: {problem}")]
    InvalidSpec {
        /// The queue.
        queue: QueueName,
        /// What is wrong, and the expected value.
        problem: String,
    },
    /// This broker cannot honour the spec.
    #[error("queue `{queue}` asks for {aspect}, which this broker cannot honour: {why}")]
    Refused {
        /// The queue.
        queue: QueueName,
        /// The guarantee that is not supported.
        aspect: Aspect,
        /// The reason, and an alternative.
        why: String,
    },
    /// The queue exists with other settings.
    #[error("queue `{queue}` exists with other settings: {difference}")]
    Mismatch {
        /// The queue.
        queue: QueueName,
        /// Differing settings: existing and requested values, and how to resolve it.
        difference: String,
    },
    /// The broker or its disk is not usable at the moment.
    #[error("broker unavailable: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// The broker was closed.
    #[error("broker is closed")]
    Closed,
}

/// Error of publishing one message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The queue is not declared.
    #[error("unknown queue `{queue}`{}; declare it first", suggestions(.known))]
    UnknownQueue {
        /// The missing queue.
        queue: QueueName,
        /// Existing queues with a similar name, nearest first.
        known: Vec<QueueName>,
    },
    /// No queue is bound to the topic.
    #[error("no queue is bound to topic `{topic}` of exchange `{exchange}`")]
    Unroutable {
        /// The exchange.
        exchange: ExchangeName,
        /// The topic.
        topic: String,
    },
    /// The queue is at its maximum length; publish again later.
    #[error("queue `{queue}` is full: its maximum length is {limit} messages")]
    QueueFull {
        /// The full queue.
        queue: QueueName,
        /// Its maximum length.
        limit: u64,
    },
    /// The message exceeds the broker's maximum size.
    #[error("message `{id}` has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Message id.
        id: String,
        /// Size in bytes, headers included.
        size: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The message violates the contract's limits.
    #[error("message `{id}`: {problem}")]
    Invalid {
        /// Message id.
        id: String,
        /// What is wrong, and the expected value.
        problem: String,
    },
    /// Not accepted: the broker or its disk is not usable at the moment. Publish again later.
    #[error("not published: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// No publisher confirm. The message may have been stored: publish it again under the same id.
    #[error("no confirmation: {detail}")]
    Unconfirmed {
        /// What happened.
        detail: String,
    },
    /// The broker was closed.
    #[error("broker is closed")]
    Closed,
}

impl PublishError {
    /// Whether the same publish can succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::Unavailable { .. } | Self::Unconfirmed { .. })
    }
}

/// Error of settling or extending one delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// The lease ended before, so the message may be with another consumer. The call had no effect.
    #[error("fenced: the lease on this delivery of queue `{queue}` was lost")]
    Fenced {
        /// Queue of the delivery.
        queue: QueueName,
    },
    /// The verdict could not be stored. The delivery stays in flight with a renewed lease: settle it again.
    #[error("not settled: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// The broker was closed.
    #[error("broker is closed")]
    Closed,
}

fn suggestions(known: &[QueueName]) -> String {
    if known.is_empty() {
        return String::new();
    }
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!(" (known: {})", names.join(", "))
}
