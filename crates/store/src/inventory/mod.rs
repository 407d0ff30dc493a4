//! The records of the flow `inventory`: one per URL, with what came back when it was last fetched.
//!
//! # The states
//!
//! | from | by | to |
//! |---|---|---|
//! | no record | `mark_queued` | `QUEUED` |
//! | no record, `QUEUED`, `FAILED_RETRYABLE` | `begin` | `IN_PROGRESS` |
//! | `IN_PROGRESS` | `complete` | `COMPLETED` |
//! | `IN_PROGRESS` | `fail`, tries are left | `FAILED_RETRYABLE` |
//! | `IN_PROGRESS` | `fail`, the last try | `FAILED_PERMANENT` |
//! | `COMPLETED`, `FAILED_PERMANENT` | `mark_queued`, a newer message | `QUEUED`, the tries are counted anew |
//! | any | `begin`, a newer message | `IN_PROGRESS`, the tries are counted anew |
//!
//! `QUEUED` is the state of an accepted message that no worker has begun. [`mark_queued`](UrlRecords::mark_queued) writes it
//! after the message is in the queue, so that the worker may be faster: it makes a record where there is none, and gives a
//! *finished* record to a newer message. It leaves everything else as it is, since a record that is in progress, or waits to
//! be tried again, says more. A lost write costs nothing: `begin` does not need it.
//!
//! # Who may change a record
//!
//! A message asks for one URL. [`begin`](UrlRecords::begin) hands out an *attempt*: the message and a number that
//! grows with each attempt at the record. Only the latest attempt can end, and it ends once: the first `complete` or
//! `fail` counts, and every repetition is answered with what the first one did. So whatever is killed, and whenever:
//!
//! | killed | the message comes back, and |
//! |---|---|
//! | before `begin` | nothing was stored; it begins |
//! | after `begin`, or while fetching | the record is in progress by the same message: a further attempt, nothing is counted, nothing is reset |
//! | after `complete`, before the acknowledgement | it is answered *finished*: acknowledge, fetch nothing |
//! | after `fail` as retryable, before it was put back | the failure is counted already; its next attempt begins, as if it had been put back |
//! | after `fail` as permanent, before the acknowledgement | it is answered *finished* |
//!
//! A worker that was thought dead and goes on is *overtaken*: its attempt is not the latest, and changes nothing.
//!
//! # Which message counts
//!
//! Of two messages about one URL the *newer* is the one that was requested later; of two of the same time the one
//! whose id is greater, by its octets. A newer message takes the record over, whatever its state, and its tries are
//! counted from zero. An older one is *superseded*: what it asks for is done, or is being done, by a request that came
//! after it, so it is acknowledged and nothing is fetched. That is also how a message is recognised that had ended
//! before a newer one came, and is delivered once more.
//!
//! No message was requested after it was delivered: a later time is taken as that of its `begin`, so that a clock that
//! is ahead, or a date made up, cannot lock a record against those who come after. A clock that is behind can make a
//! message look older than one before it: it is then answered by a record that is older than it by no more than the
//! two clocks differ.
//!
//! # What is kept when
//!
//! `metadata` and `additional_details` are those of the last attempt that was completed: a new attempt, and one that
//! fails, leave them as they are. `error_message` is that of the last failure of the message; a completion and a newer
//! message clear it. `last_attempt_at` is when the latest attempt began, `updated_at` when anything changed.
//!
//! # Where our own notes are
//!
//! The message, its time and the number of the attempt are [`Work`]. They are shown, and in a store of documents they
//! are kept, as `additional_details.crawlway`, so that who reads by the fields of the record alone meets no field that
//! it does not know. That name is ours: details that a worker brings under it are left out.
//!
//! # What a store can keep
//!
//! - U+0000, which PostgreSQL and the names of BSON cannot hold, becomes U+FFFD, in all texts and names.
//! - Whole numbers beyond those of 64 bits with a sign become floating.
//! - A record is refused as [`Invalid`](StoreError::Invalid), and nothing is changed, when it is larger than
//!   [`LARGEST`] or nested deeper than [`DEEPEST`]. Who is told so lets the attempt fail, with that reason.
//! - The text of an error is cut to [`LONGEST_ERROR`].

mod attempt;
mod cookies;
mod headers;
mod id;
mod list;
mod record;
mod storable;

pub use attempt::{Attempt, Begun, Ended, Fetched, Request};
pub use cookies::{Cookie, cookies};
pub use headers::headers;
pub use id::{NotAnId, RecordId};
pub use list::{Counts, Cursor, Listed, MOST_LISTED, MOST_WITH_SOURCE, NotACursor, Wanted};
pub use record::{Metadata, OURS, PageSource, Processing, Record, Status, Work};
pub use storable::{DEEPEST, LARGEST, LONGEST_ERROR, LONGEST_REQUEST, error_text, text};

use crate::{StoreError, Timestamp};
use std::fmt::Debug;

/// How often a message is tried before its failure is permanent.
pub const MOST_TRIES: u32 = 3;

/// The records of all URLs, shared by all workers.
///
/// Every call is atomic: it happens as a whole or not at all, and calls on one record happen one after the other.
/// Every call may be repeated. Times are the caller's.
#[async_trait::async_trait]
pub trait UrlRecords: Debug + Send + Sync {
    /// Notes messages that the queue has accepted: makes a record that is queued where there is none, and turns a finished
    /// record whose message is older into a queued one of the newer message, with its tries counted anew. Every other
    /// record stays as it is, and no record loses what was fetched, or its number of attempts.
    ///
    /// Each record changes as a whole. After an error some of them may have been changed; a repetition does the rest.
    async fn mark_queued(&self, requests: &[Request], now: Timestamp) -> Result<(), StoreError>;

    /// Begins an attempt at a URL for a message, and makes the record if there is none. When this answers
    /// [`Begun::Yours`] the record is in progress; with the other answers nothing has changed.
    async fn begin(&self, request: &Request, now: Timestamp) -> Result<Begun, StoreError>;

    /// Ends an attempt with what came back. When this returns, that survives a power cut.
    async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &Fetched,
        now: Timestamp,
    ) -> Result<Ended, StoreError>;

    /// Ends an attempt as failed and counts it: permanently when it was one of `most_tries` or more, else to be tried
    /// again. When this returns, that survives a power cut.
    async fn fail(
        &self,
        attempt: &Attempt,
        error: &str,
        most_tries: u32,
        now: Timestamp,
    ) -> Result<Ended, StoreError>;

    /// A record with all that it has.
    async fn get(&self, id: RecordId) -> Result<Option<Record>, StoreError>;

    /// Records by when they were made, the newest first, those of one time by their ids, the greatest first. Whoever
    /// goes on from page to page meets each record that was there from the start once, whatever is added meanwhile.
    async fn list(&self, wanted: &Wanted) -> Result<Listed, StoreError>;

    /// How many records there are of each status.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// Whether the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
