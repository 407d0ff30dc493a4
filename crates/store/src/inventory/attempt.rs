//! Attempts at a record: request, begin, fetched content, end.

use super::{RecordId, RecordStatus};
use crate::Timestamp;
use serde_json::{Map, Value};

/// A message that requests a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRequest {
    /// The URL, in its normal form.
    pub url: String,
    /// Id of the message, the same for every redelivery.
    pub message_id: String,
    /// When the URL was requested.
    pub requested_at: Timestamp,
}

/// Attempt at a record, with its fencing number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// The record.
    pub id: RecordId,
    /// Id of the message.
    pub message_id: String,
    /// Fencing number: greater than that of every earlier attempt at the record.
    pub number: u64,
}

/// Outcome of beginning an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginOutcome {
    /// The attempt has begun: fetch the URL, then complete or fail the attempt.
    Started {
        /// The attempt.
        attempt: Attempt,
        /// Number of failed attempts of this message.
        retry_count: u32,
    },
    /// This message has ended before: ack it without a fetch.
    AlreadyFinished {
        /// How it ended.
        status: RecordStatus,
        /// Number of its failed attempts.
        retry_count: u32,
    },
    /// A newer message owns the record: ack this one without a fetch.
    Superseded {
        /// Id of the newer message.
        by: String,
    },
}

/// Fetched content of a URL.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FetchedContent {
    /// The headers, see [`headers`](super::headers()).
    pub headers: Option<Map<String, Value>>,
    /// The cookies, see [`cookies`](super::cookies()).
    pub cookies: Option<Map<String, Value>>,
    /// Page source, if it is text.
    pub page_source: Option<String>,
    /// Further details.
    pub additional_details: Map<String, Value>,
}

/// Outcome of ending an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndOutcome {
    /// The attempt has ended, now or by an earlier identical call.
    Recorded {
        /// Status of the record since then: completed, failed retryable or failed permanent.
        status: RecordStatus,
        /// Number of failed attempts of the message.
        retry_count: u32,
    },
    /// Fenced: a later attempt has begun, for the same message or a newer one. Nothing changed; ack this delivery.
    Fenced,
    /// The record no longer exists. Nothing changed; begin again.
    NotFound,
}
