//! Trails: the event history of an item, with one entry per attempt of each stage.

use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Trails of all items: append-only, with old entries deleted by retention.
#[async_trait::async_trait]
pub trait Trails: Debug + Send + Sync {
    /// Appends entries. They are durable when this returns.
    async fn append(&self, entries: &[TrailEntry]) -> Result<(), StoreError>;

    /// Trail of one item, oldest entry first. Of entries with the same time, terminal ones come last, since a stage
    /// writes its entry after its output is published, and the next stage may be faster; otherwise the order of
    /// insertion decides. Empty for an unknown item.
    async fn of_item(&self, item: &str) -> Result<Vec<TrailEntry>, StoreError>;

    /// Trails of up to `max` items with this subject, the one with the latest entry first, each ordered as in
    /// [`of_item`](Trails::of_item).
    async fn of_subject(&self, subject: &str, max: usize) -> Result<Vec<Vec<TrailEntry>>, StoreError>;

    /// Ids of up to `max` items whose trail is open, in byte order. A trail is open if its latest non-terminal entry
    /// is later than every terminal one; at the same time the terminal entry wins.
    async fn open_items(&self, max: usize) -> Result<Vec<String>, StoreError>;

    /// Deletes up to `max` entries from before this time, in the order of [`of_item`](Trails::of_item). Returns how many.
    async fn expire(&self, before: Timestamp, max: usize) -> Result<u64, StoreError>;
}

/// Entry of a trail: one attempt of one stage at one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrailEntry {
    /// The item's id.
    pub item: String,
    /// The subject of the item, such as its URL, as a second key of its trail.
    pub subject: Option<String>,
    /// The flow, such as `search`.
    pub flow: String,
    /// The stage, such as `crawl`.
    pub stage: String,
    /// When the attempt ended.
    pub at: Timestamp,
    /// How it ended, as a fixed set of values for programs.
    pub end: AttemptEnd,
    /// Outcome named by the stage, such as `published` or `unchanged`.
    pub outcome: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// The worker process.
    pub worker: String,
    /// How often the item had been replayed before.
    #[serde(default)]
    pub replays: u32,
    /// Details of an attempt that did not fail, such as its result or the reason of a deferral.
    #[serde(default)]
    pub note: Option<String>,
    /// Error of an attempt that failed.
    pub error: Option<String>,
}

/// How an attempt of a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The item is done.
    Done,
    /// The stage is done and has published the item to the next stage.
    Passed,
    /// The attempt failed and is retried.
    Retried,
    /// The item was deferred, for example by the rate limiter.
    Deferred,
    /// A component of Crawlway was unavailable, or the worker was lost. Counts no attempt.
    Waited,
    /// The item became a dead letter.
    Dead,
    /// The dead letter was replayed.
    Replayed,
}

impl AttemptEnd {
    /// All values.
    pub const ALL: [AttemptEnd; 7] = [
        AttemptEnd::Done,
        AttemptEnd::Passed,
        AttemptEnd::Retried,
        AttemptEnd::Deferred,
        AttemptEnd::Waited,
        AttemptEnd::Dead,
        AttemptEnd::Replayed,
    ];

    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttemptEnd::Done => "done",
            AttemptEnd::Passed => "passed",
            AttemptEnd::Retried => "retried",
            AttemptEnd::Deferred => "deferred",
            AttemptEnd::Waited => "waited",
            AttemptEnd::Dead => "dead",
            AttemptEnd::Replayed => "replayed",
        }
    }

    /// Parses a stored name.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == word)
    }

    /// Whether the attempt failed.
    const fn is_failure(self) -> bool {
        matches!(self, AttemptEnd::Retried | AttemptEnd::Waited | AttemptEnd::Dead)
    }

    /// Splits the text of an attempt into the `note` and `error` of its entry.
    pub fn note_or_error(self, text: Option<String>) -> (Option<String>, Option<String>) {
        if self.is_failure() { (None, text) } else { (text, None) }
    }

    /// Whether the item needs no further work.
    pub const fn is_terminal(self) -> bool {
        matches!(self, AttemptEnd::Done | AttemptEnd::Dead)
    }
}

impl std::fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
