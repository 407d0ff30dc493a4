//! What flows: messages going out, deliveries coming in, and the receipts that settle them.

use crate::{ExchangeName, Failure, QueueName, Timestamp};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Headers: unique names, in order of name, with text values. Names keep their case.
pub type Headers = BTreeMap<String, String>;

/// The id that follows an item through all queues. Not a key: publishing an id twice makes two messages.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(Arc<str>);

impl MessageId {
    /// A new id that nobody else has; later ids sort after earlier ones.
    pub fn random() -> Self {
        let mut buffer = uuid::Uuid::encode_buffer();
        Self(Arc::from(&*uuid::Uuid::now_v7().hyphenated().encode_lower(&mut buffer)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Takes any text; its length and characters are checked when it is published.
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

/// A message as its publisher made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The item's id.
    pub id: MessageId,
    /// The key that a log-based broker partitions by; carried along elsewhere.
    pub key: Option<String>,
    /// Whom we must not hammer. Binding only in queues that have groups; carried along elsewhere.
    pub group: Option<String>,
    /// Headers, the publisher's own only.
    pub headers: Headers,
    /// The body, never looked into.
    pub body: Bytes,
    /// When the broker took it.
    pub published_at: Timestamp,
}

/// Where a message is published to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Straight into this queue.
    Queue(QueueName),
    /// Into every queue bound to this topic of this exchange.
    Topic {
        /// The exchange.
        exchange: ExchangeName,
        /// Words separated by dots.
        topic: String,
    },
}

/// A message to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub to: Target,
    /// The item's id.
    pub id: MessageId,
    /// The key that a log-based broker partitions by.
    pub key: Option<String>,
    /// Whom we must not hammer.
    pub group: Option<String>,
    /// Headers.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
    /// Not to be delivered before this time.
    pub not_before: Option<Timestamp>,
}

impl Outgoing {
    /// A message for a queue, with a new id.
    pub fn to_queue(queue: &QueueName, body: impl Into<Bytes>) -> Self {
        Self::new(Target::Queue(queue.clone()), body)
    }

    /// A message for every queue bound to this topic, with a new id.
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

    /// Adds a header; an earlier one of that name is replaced.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Holds the message back until this time.
    pub fn not_before(mut self, time: Timestamp) -> Self {
        self.not_before = Some(time);
        self
    }
}

/// Names one delivery of one message; the broker that made it knows what the numbers mean.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The queue it was taken from.
    pub queue: QueueName,
    /// Which opening or connection of the broker made the delivery.
    pub epoch: u64,
    /// Which delivery of that epoch it is.
    pub tag: u64,
}

/// A message, for now its receiver's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Settles this delivery.
    pub receipt: Receipt,
    /// The message as it was published.
    pub message: Message,
    /// Which attempt this is, from 1. Retries count; deferrals and lost receivers don't.
    pub attempt: u32,
    /// How many receivers of it were lost, see [`crate::suspects`].
    pub losses: u32,
    /// How the previous attempt ended, if one failed.
    pub last_error: Option<Failure>,
    /// How often the message has been replayed from the dead letters.
    pub replays: u32,
    /// When the lease ends.
    pub lease_until: Timestamp,
}
