//! Messages in flight: their keys, their history, and how they are taken and settled.

use super::DeadLetterId;
use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum lengths in bytes.
const MAX_NAME_BYTES: usize = 255;
const MAX_KEY_BYTES: usize = 512;

fn check(what: &str, text: &str, max: usize) -> Result<(), StoreError> {
    if (1..=max).contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    let problem =
        format!("{what} is `{}`; use 1 to {max} bytes without control characters", text.escape_debug());
    Err(StoreError::Invalid { problem })
}

/// Identity of one message on its broker: the message id on SQS; topic, partition, offset and timestamp on Kafka. A retry or a
/// replay that publishes a new message has another key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    queue: String,
    key: String,
}

impl MessageKey {
    /// Key of a message of this queue: 1 to 255 and 1 to 512 bytes, without control characters, the queue without spaces.
    pub fn new(queue: impl Into<String>, key: impl Into<String>) -> Result<Self, StoreError> {
        let (queue, key) = (queue.into(), key.into());
        check("the name of a queue", &queue, MAX_NAME_BYTES)?;
        check("the key of a message", &key, MAX_KEY_BYTES)?;
        if queue.contains(' ') {
            return Err(StoreError::Invalid {
                problem: format!("the name of the queue `{queue}` has a space"),
            });
        }
        Ok(Self { queue, key })
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The key within the queue.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Error text.
    pub error: String,
    /// Time of the failure.
    pub at: Timestamp,
}

/// History of a message: failed attempts and lost workers. Where the broker republishes a message with its counts in headers, it begins
/// with that copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// Number of failed attempts.
    pub attempts: u32,
    /// Number of workers lost with it, see [`crate::suspects`].
    pub losses: u32,
    /// Number of those that ran nothing else.
    pub solo_crashes: u32,
    /// Error of the first failed attempt.
    pub first_error: Option<Failure>,
    /// Error of the last failed attempt.
    pub last_error: Option<Failure>,
}

/// Outcome of taking a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The session has it in flight and can run it.
    Taken(History),
    /// Another session runs it solo, or crashed over it and is not lost yet. Defer it, uncounted; then its session has settled
    /// it, renewed its lease, or is lost and the crash counted.
    Busy {
        /// End of that session's lease.
        until: Timestamp,
    },
    /// It is a dead letter that was not settled: go on with step 2 of its [dead-lettering](super#order-of-dead-lettering).
    Dead(DeadLetterId),
    /// Its dead letter was replayed or dropped: settle it at the broker and do nothing else.
    Closed,
    /// The session is lost, closed or unknown.
    Fenced,
}

/// Verdict on a message in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It is done, or was published anew with its history: its history is deleted. After the broker has settled it.
    Done,
    /// It is returned to its queue or deferred, without counting an attempt.
    Returned,
    /// The attempt failed and counts. Before the broker makes it visible again.
    Failed {
        /// Error of the attempt, truncated to 16 KiB.
        error: String,
    },
    /// Its lease ended while its process lives: it is suspect by one more lost worker.
    LeaseExpired,
}

/// Binding of a queue to the topics of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExchangeBinding {
    exchange: String,
    pattern: String,
}

impl ExchangeBinding {
    /// Binding by a pattern over topics. Both are 1 to 255 bytes without control characters.
    pub fn new(exchange: impl Into<String>, pattern: impl Into<String>) -> Result<Self, StoreError> {
        let (exchange, pattern) = (exchange.into(), pattern.into());
        check("the name of an exchange", &exchange, MAX_NAME_BYTES)?;
        check("the pattern of a binding", &pattern, MAX_NAME_BYTES)?;
        Ok(Self { exchange, pattern })
    }

    /// Topic exchange.
    pub fn exchange(&self) -> &str {
        &self.exchange
    }

    /// Pattern over topics.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_a_store_could_confuse_are_refused() {
        for (queue, key) in [("", "a"), ("q", ""), ("a b", "c"), ("q\n", "a"), ("q", "a\0")] {
            assert!(
                matches!(MessageKey::new(queue, key), Err(StoreError::Invalid { .. })),
                "{queue:?} {key:?}"
            );
        }
        assert!(
            MessageKey::new("q".repeat(256), "a").is_err() && MessageKey::new("q", "a".repeat(513)).is_err()
        );
        let longest = MessageKey::new("q".repeat(255), "é ".repeat(170)).expect("a key");
        assert_eq!((longest.queue().len(), longest.key().len()), (255, 510));
    }
}
