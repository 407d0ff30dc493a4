//! The records of the flow `inventory`: one per URL, with what came back when it was last fetched.
//!
//! # The states
//!
//! ```text
//!                    begin                      complete
//! (no record) ─────────────────▶ IN_PROGRESS ──────────────▶ COMPLETED
//!                                 ▲  ▲    │                      │
//!       begin, the same message ──┘  │    │ fail                 │ begin, a newer message:
//!                │                   │    ├─────────────▶ FAILED_PERMANENT   the tries are counted anew
//!                └── FAILED_RETRYABLE ◀───┘ the last try         │
//!                                    └───────────────────────────┘
//! ```
//!
//! `QUEUED` is what a URL is called before its first `begin`. No call here writes it; a record that somebody else has
//! left so is as good as one in progress.
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
