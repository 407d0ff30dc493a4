//! Attempts: how one is asked for, what it brings, and how it ends.

use super::{RecordId, Status};
use crate::Timestamp;
use serde_json::{Map, Value};

/// A message that asks for a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The URL, in its normal form.
    pub url: String,
    /// The message's id. The same message has the same one however often it is delivered.
    pub message_id: String,
    /// When somebody asked for the URL.
    pub requested_at: Timestamp,
}

/// The right to end what was begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The record.
    pub id: RecordId,
    /// The message it is made for.
    pub message_id: String,
    /// Which of all attempts at the record it is; a later one has a greater number.
    pub number: u64,
}

/// The answer to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Fetch the URL, and then complete or fail the attempt.
    Yours {
        /// What to end.
        attempt: Attempt,
        /// How many tries of this message have failed so far.
        retry_count: u32,
    },
    /// This very message has ended before: acknowledge it, and fetch nothing.
    Finished {
        /// How it ended.
        status: Status,
        /// How many of its tries had failed.
        retry_count: u32,
    },
    /// A newer message has the record: acknowledge this one, and fetch nothing.
    Superseded {
        /// The newer message's id.
        by: String,
    },
}

/// What came back for a URL.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fetched {
    /// The headers, see [`headers`](super::headers()).
    pub headers: Option<Map<String, Value>>,
    /// The cookies, see [`cookies`](super::cookies()).
    pub cookies: Option<Map<String, Value>>,
    /// The page's source, if it is text.
    pub page_source: Option<String>,
    /// Whatever else is to be kept.
    pub additional_details: Map<String, Value>,
}

/// The answer to the end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The attempt has ended like this, now or when it was first ended.
    As {
        /// The record's status since then: completed, failed and to be tried again, or failed for good.
        status: Status,
        /// How many tries of the message have failed.
        retry_count: u32,
    },
    /// A later attempt has begun, by the same message or a newer one; nothing was changed. Whoever made that one
    /// ends it, so this delivery can be acknowledged.
    Overtaken,
    /// There is no such record any more; nothing was changed. The message has to begin again.
    Lost,
}
