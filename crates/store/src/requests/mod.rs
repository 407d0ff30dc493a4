//! Requests of users for one URL each, with their status and result.
//!
//! # State machine
//!
//! | from | call | to |
//! |---|---|---|
//! | no request | `add` | `pending`, in the outbox, with a deadline |
//! | `pending` | `apply` | `completed` or `failed` |
//! | `pending` | `expire`, past the deadline | `failed` |
//! | no request | `apply`: the store has lost it | `completed` or `failed` |
//! | `failed` | `apply` with a result, if late answers are kept | `completed` |
//! | any | `delete` | deleted; later answers are ignored |
//! | `completed`, `failed` | `purge`, past the retention | deleted; later answers are ignored |
//!
//! # Outbox
//!
//! A request is published to a queue after it is stored. [`add`](RequestStore::add) puts it into the *outbox* first, and
//! [`published`](RequestStore::published) removes it after the broker's confirm. If the process is killed in between,
//! [`take_unpublished`](RequestStore::take_unpublished) returns the request once [`RequestPolicy::publish_timeout`] is over, and it is
//! published again. Two publishes of one request are harmless: its second answer changes nothing.
//!
//! # Change feed
//!
//! Each user has a feed of changes: an append-only log with increasing ids, of which the last [`MAX_CHANGES`] are kept. A reader
//! goes on after the last id that it has seen, on any process. A crash between a change and its entry repeats the entry, so
//! that each change is in the feed at least once.

mod email;
mod list;
mod request;

pub use email::{Email, InvalidEmail};
pub use list::{InvalidRequestCursor, MAX_PAGE_SIZE, RequestCursor, RequestPage, RequestQuery};
pub use request::{Answer, CrawlRequest, RequestKey, RequestStatus, error_result};

use crate::StoreError;
use serde::{Deserialize, Serialize};
use std::{fmt::Debug, time::Duration};
use tokio::sync::Notify;

/// Number of changes of a user that are kept, at least.
pub const MAX_CHANGES: usize = 1000;

/// Time for which a deleted request is remembered, so that its answer does not bring it back.
pub const DELETED_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// Settings of a [`RequestStore`]. All processes should have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPolicy {
    /// Time after which a request without an answer has failed.
    pub timeout: Duration,
    /// Time after which a request in the outbox is published again.
    pub publish_timeout: Duration,
    /// Whether a failed request takes the result of a later answer.
    pub keep_late_answers: bool,
}

impl Default for RequestPolicy {
    /// 10 minutes, 15 seconds, no late answers.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(600),
            publish_timeout: Duration::from_secs(15),
            keep_late_answers: false,
        }
    }
}

/// Outcome of [`RequestStore::add`] for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddOutcome {
    /// The request is stored and has to be published.
    Added,
    /// The user has a request with this id, which is unchanged.
    Exists(CrawlRequest),
}

/// Outcome of [`RequestStore::apply`] for one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The answer is the result of the request.
    Applied,
    /// The request was unknown; it is stored with its result.
    Created,
    /// The request has a result, which is unchanged.
    AlreadyEnded(RequestStatus),
    /// The user has deleted the request.
    Deleted,
}

/// Position in the change feed of a user. Opaque text without white space; the default is the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangeId(pub String);

/// Entry of a change feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Position in the feed.
    pub id: ChangeId,
    /// Id of the request.
    pub request: String,
    /// Status of the request from then on; `None` for a deleted one.
    pub status: Option<RequestStatus>,
}

/// Requests of all users, shared by all processes.
///
/// Batches are answered in order, one answer per element, and an id may occur in a batch only once. Each element is atomic, the
/// batch is not. Every call is idempotent, so that it can be repeated after an error. All times are those of the store's own
/// clock. A user's requests are found by the e-mail address, which is used verbatim.
#[async_trait::async_trait]
pub trait RequestStore: Debug + Send + Sync {
    /// Policy that it was opened with.
    fn policy(&self) -> &RequestPolicy;

    /// Notified of one change or more of any user by this process, for one task that waits. Changes of other processes are found in
    /// the feeds.
    fn changed(&self) -> &Notify;

    /// Adds pending requests, each with an outbox entry and a deadline. Durable when this returns.
    async fn add(&self, requests: &[CrawlRequest]) -> Result<Vec<AddOutcome>, StoreError>;

    /// Removes published requests from the outbox.
    async fn published(&self, requests: &[CrawlRequest]) -> Result<(), StoreError>;

    /// Pending requests that are in the outbox for longer than [`RequestPolicy::publish_timeout`], up to `max`. Each is returned
    /// again after that time unless it is [`published`](Self::published).
    async fn take_unpublished(&self, max: usize) -> Result<Vec<CrawlRequest>, StoreError>;

    /// Applies answers. Durable when this returns.
    async fn apply(&self, answers: &[Answer]) -> Result<Vec<ApplyOutcome>, StoreError>;

    /// Fails up to `max` pending requests whose deadline is over, with this reason. Returns how many deadlines were handled; call
    /// it again at once if that is `max`.
    async fn expire(&self, reason: &str, max: usize) -> Result<usize, StoreError>;

    /// A request of a user.
    async fn get(&self, key: &RequestKey) -> Result<Option<CrawlRequest>, StoreError>;

    /// Requests of a user by creation time, the newest first, then by id in descending order.
    async fn list(&self, email: &str, query: &RequestQuery) -> Result<RequestPage, StoreError>;

    /// Deletes a request; `false` if there is none. Its answer is ignored for [`DELETED_TTL`].
    async fn delete(&self, key: &RequestKey) -> Result<bool, StoreError>;

    /// Deletes all requests that a user had at the time of the call. Returns how many.
    async fn delete_all(&self, email: &str) -> Result<u64, StoreError>;

    /// Deletes up to `max` requests that ended at least this long ago, as [`delete`](Self::delete) does. Returns how many ends were
    /// handled; call it again at once if that is `max`.
    async fn purge(&self, min_age: Duration, max: usize) -> Result<usize, StoreError>;

    /// Up to `max` changes of each user after this position, the oldest first. A position that the feed has not reached, because
    /// the store has lost data, is the start.
    async fn changes(&self, feeds: &[(String, ChangeId)], max: usize)
    -> Result<Vec<Vec<Change>>, StoreError>;

    /// Position of the last change of a user.
    async fn last_change(&self, email: &str) -> Result<ChangeId, StoreError>;

    /// Readiness check: whether the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
