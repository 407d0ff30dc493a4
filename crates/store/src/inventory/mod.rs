//! Records of the flow `inventory`: one per URL, with the result of its last fetch.
//!
//! # State machine
//!
//! | from | call | to |
//! |---|---|---|
//! | no record | `mark_queued` | `QUEUED` |
//! | no record, `QUEUED`, `FAILED_RETRYABLE` | `begin` | `IN_PROGRESS` |
//! | `IN_PROGRESS` | `complete` | `COMPLETED` |
//! | `IN_PROGRESS` | `fail`, attempts are left | `FAILED_RETRYABLE` |
//! | `IN_PROGRESS` | `fail`, last attempt | `FAILED_PERMANENT` |
//! | `COMPLETED`, `FAILED_PERMANENT` | `mark_queued`, newer message | `QUEUED`, attempts reset |
//! | any | `begin`, newer message | `IN_PROGRESS`, attempts reset |
//!
//! `QUEUED` is the state of an accepted message that no worker has begun. [`mark_queued`](UrlRecords::mark_queued) runs
//! after the publish, so that the worker may be faster. Hence it only creates a missing record, or hands a *finished* one
//! to a newer message; every other state is later and is kept. If the write is lost, nothing breaks: `begin` does not need it.
//!
//! # Fencing
//!
//! A message requests one URL. [`begin`](UrlRecords::begin) returns an *attempt*: the message and a fencing number that
//! grows with each attempt at the record. Only the latest attempt can end, and it ends once: the first `complete` or
//! `fail` counts, and every repetition returns the same answer. So a kill at any time is harmless:
//!
//! | killed | after redelivery of the message |
//! |---|---|
//! | before `begin` | nothing was stored; it begins |
//! | after `begin`, or while fetching | the record is in progress for the same message: a further attempt, no failure counted |
//! | after `complete`, before the ack | answered *finished*: ack, no fetch |
//! | after `fail` as retryable, before the requeue | the failure is counted; the next attempt begins |
//! | after `fail` as permanent, before the ack | answered *finished* |
//!
//! A worker that was taken for dead and goes on is fenced: its attempt is not the latest and changes nothing.
//!
//! # Order of messages
//!
//! Of two messages about one URL the *newer* is the one requested later; at the same time the one with the greater id, in
//! byte order. A newer message takes over the record in any state, with its attempts counted from zero. An older one is
//! *superseded*: a later request has fetched the URL or is fetching it, so the older one is acked without a fetch. The
//! same rule recognises a redelivered message that ended before a newer one came.
//!
//! A request time after the `begin` is taken as the time of the `begin`, so that a clock that is ahead, or a forged date,
//! cannot lock a record. A clock that is behind can make a message look older than its predecessor: it then gets a
//! record that is older than itself by no more than the clock skew.
//!
//! # Lifetime of fields
//!
//! `metadata` and `additional_details` are those of the last completed attempt; a new or failed attempt leaves them
//! unchanged. `error_message` is the last failure of the message; a completion and a newer message clear it.
//! `last_attempt_at` is the start of the latest attempt, `updated_at` the last change.
//!
//! # Bookkeeping
//!
//! The message, its request time and the attempt number are [`LatestAttempt`]. They are shown, and in document stores kept, as
//! `additional_details.crawlway`, so that other readers of the record meet no unknown top-level field. Details of a
//! worker under that name are dropped.
//!
//! # Storable values
//!
//! - U+0000, which PostgreSQL and BSON names do not support, becomes U+FFFD in all texts and names.
//! - Integers beyond signed 64 bits become floating-point numbers.
//! - A record larger than [`MAX_RECORD_BYTES`] or nested deeper than [`MAX_NESTING`] is [`Invalid`](StoreError::Invalid) and changes
//!   nothing. The caller fails the attempt with that reason.
//! - An error text is truncated to [`MAX_ERROR_BYTES`].

mod attempt;
mod cookies;
mod headers;
mod id;
mod list;
mod record;
mod sanitize;

pub use attempt::{Attempt, BeginOutcome, EndOutcome, FetchedContent, RecordRequest};
pub use cookies::{Cookie, cookies};
pub use headers::headers;
pub use id::{InvalidRecordId, RecordId};
pub use list::{
    Cursor, InvalidCursor, MAX_PAGE_SIZE, MAX_PAGE_SIZE_WITH_SOURCE, RecordPage, RecordQuery, StatusCounts,
};
pub use record::{
    CRAWLWAY_FIELD, InventoryRecord, LatestAttempt, Metadata, PageSource, Processing, RecordStatus,
};
pub use sanitize::{
    MAX_ERROR_BYTES, MAX_NESTING, MAX_RECORD_BYTES, MAX_REQUEST_BYTES, sanitize_error, sanitize_text,
};

use crate::{StoreError, Timestamp};
use std::fmt::Debug;

/// Maximum number of attempts of a message before its failure is permanent.
pub const MAX_ATTEMPTS: u32 = 3;

/// Records of all URLs, shared by all workers.
///
/// Every call is atomic and idempotent, and calls on one record are serialised. The caller passes the time.
#[async_trait::async_trait]
pub trait UrlRecords: Debug + Send + Sync {
    /// Records accepted messages: creates a queued record where there is none, and hands a finished record to a newer
    /// message as queued, with its attempts reset. Every other record is unchanged. The fetched content and the attempt
    /// number are kept.
    ///
    /// Each record changes atomically. After an error some of them may have changed; repeat the call for the rest.
    async fn mark_queued(&self, requests: &[RecordRequest], now: Timestamp) -> Result<(), StoreError>;

    /// Begins an attempt at a URL for a message, and creates the record if there is none. After [`BeginOutcome::Started`] the
    /// record is in progress; after any other answer it is unchanged.
    async fn begin(&self, request: &RecordRequest, now: Timestamp) -> Result<BeginOutcome, StoreError>;

    /// Completes an attempt with the fetched content. Durable when this returns.
    async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &FetchedContent,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError>;

    /// Fails an attempt and counts the failure: permanently once `max_attempts` have failed, otherwise retryable.
    /// Durable when this returns.
    async fn fail(
        &self,
        attempt: &Attempt,
        error: &str,
        max_attempts: u32,
        now: Timestamp,
    ) -> Result<EndOutcome, StoreError>;

    /// A record with all its fields.
    async fn get(&self, id: RecordId) -> Result<Option<InventoryRecord>, StoreError>;

    /// Records by creation time, newest first, then by id in descending order. Pagination returns each record that
    /// existed at its start exactly once, whatever is added meanwhile.
    async fn list(&self, wanted: &RecordQuery) -> Result<RecordPage, StoreError>;

    /// Number of records of each status.
    async fn counts(&self) -> Result<StatusCounts, StoreError>;

    /// Readiness check: whether the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
