//! Messages, deliveries and receipts.

use crate::{ExchangeName, Failure, QueueName, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Message headers: unique, case-sensitive names with text values, sorted by name.
pub type Headers = BTreeMap<String, String>;

/// Id of an item, the same in all queues. Not a deduplication key: publishing an id twice makes two messages.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(Arc<str>);

impl MessageId {
    /// A new unique id (UUID version 7), so that ids sort by creation time.
    pub fn random() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        Self(Arc::from(&*uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Accepts any text; [`limits::check`](crate::limits::check) validates it at publish.
impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A message as published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Item id.
    pub id: MessageId,
    /// Partition key for log-based brokers; carried unchanged by others.
    pub key: Option<String>,
    /// Rate-limiting group (host, company or platform). Ordered in queues with [`Ordering::PerGroup`](crate::Ordering::PerGroup) only;
    /// carried unchanged in others.
    pub group: Option<String>,
    /// Headers set by the publisher.
    pub headers: Headers,
    /// Opaque body.
    pub body: Bytes,
    /// Time at which the broker accepted it.
    pub published_at: Timestamp,
    /// Parts of another program's message that could not be carried unchanged. Empty for our own, but for
    /// [`Defect::NullKey`].
    pub defects: Vec<Defect>,
}

/// Part of another program's message that the contract cannot represent. The stage decides whether it matters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// A header name that occurs more than once. The last value is kept.
    DuplicateHeader(String),
    /// A header without a value, carried as empty text.
    NullHeader(String),
    /// A header that is not UTF-8, carried with replacement characters.
    BinaryHeader(String),
    /// A key that is not UTF-8, carried with replacement characters.
    BinaryKey,
    /// No key, on a broker whose messages have one.
    NullKey,
    /// A body that is null rather than empty, carried as empty.
    NullBody,
}

impl Defect {
    /// Name, and the header if it is one's.
    fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Defect::DuplicateHeader(name) => ("duplicate-header", Some(name)),
            Defect::NullHeader(name) => ("null-header", Some(name)),
            Defect::BinaryHeader(name) => ("binary-header", Some(name)),
            Defect::BinaryKey => ("binary-key", None),
            Defect::NullKey => ("null-key", None),
            Defect::NullBody => ("null-body", None),
        }
    }

    /// Form in which a dead letter keeps it.
    pub fn to_code(&self) -> String {
        match self.parts() {
            (name, Some(header)) => format!("{name} {header}"),
            (name, None) => name.to_owned(),
        }
    }

    /// Reads the form of [`to_code`](Self::to_code).
    pub fn from_code(code: &str) -> Option<Self> {
        let (name, header) = code.split_once(' ').unwrap_or((code, ""));
        let known = [
            Defect::DuplicateHeader(header.to_owned()),
            Defect::NullHeader(header.to_owned()),
            Defect::BinaryHeader(header.to_owned()),
            Defect::BinaryKey,
            Defect::NullKey,
            Defect::NullBody,
        ];
        known.into_iter().find(|defect| defect.parts().0 == name)
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Defect::DuplicateHeader(name) => write!(f, "header `{name}` occurs more than once"),
            Defect::NullHeader(name) => write!(f, "header `{name}` has no value"),
            Defect::BinaryHeader(name) => write!(f, "header `{name}` is not UTF-8"),
            Defect::BinaryKey => f.write_str("the key is not UTF-8"),
            Defect::NullKey => f.write_str("the key is null"),
            Defect::NullBody => f.write_str("the body is null"),
        }
    }
}

/// Destination of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One queue, directly.
    Queue(QueueName),
    /// Every queue bound to a topic of an exchange.
    Topic {
        /// Topic exchange.
        exchange: ExchangeName,
        /// Dot-separated words.
        topic: String,
    },
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Destination.
    pub to: Target,
    /// Item id.
    pub id: MessageId,
    /// Partition key for log-based brokers.
    pub key: Option<String>,
    /// Rate-limiting group.
    pub group: Option<String>,
    /// Headers.
    pub headers: Headers,
    /// Body.
    pub body: Bytes,
    /// Earliest delivery time.
    pub not_before: Option<Timestamp>,
}

impl Outgoing {
    /// A message to a queue, with a new id.
    pub fn to_queue(queue: &QueueName, body: impl Into<Bytes>) -> Self {
        Self::new(Target::Queue(queue.clone()), body)
    }

    /// A message to a topic, with a new id.
    pub fn to_topic(exchange: &ExchangeName, topic: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Target::Topic { exchange: exchange.clone(), topic: topic.into() }, body)
    }

    fn new(to: Target, body: impl Into<Bytes>) -> Self {
        Self {
            to,
            id: MessageId::random(),
            key: None,
            group: None,
            headers: Headers::new(),
            body: body.into(),
            not_before: None,
        }
    }

    /// Sets the id.
    pub fn id(mut self, id: impl Into<MessageId>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Sets a header; replaces one of the same name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the earliest delivery time.
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.not_before = Some(time);
        self
    }
}

/// Handle of one delivery, needed to settle it. Only the broker that issued it interprets the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Queue of the delivery.
    pub queue: QueueName,
    /// Session of the broker: one opening or connection.
    pub epoch: u64,
    /// Delivery tag within that session.
    pub tag: u64,
}

impl Receipt {
    /// A random epoch, so that receipts of other handles are fenced. The upper half is left free for callers that count on from it.
    pub fn random_epoch() -> u64 {
        u64::from_be_bytes(*uuid::Uuid::now_v7().as_bytes().last_chunk().unwrap_or(&[0; 8])) >> 1
    }
}

/// A message delivered to a consumer, leased until it is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Receipt to settle or extend it with.
    pub receipt: Receipt,
    /// The message as published.
    pub message: Message,
    /// Number of this attempt, from 1. Retries count; deferrals and lost workers do not.
    pub attempt: u32,
    /// Number of workers lost with it, see [`crate::suspects`].
    pub losses: u32,
    /// Error of the previous attempt, if one failed.
    pub last_error: Option<Failure>,
    /// Number of replays from the dead letters.
    pub replays: u32,
    /// End of the lease.
    pub lease_until: Timestamp,
}
