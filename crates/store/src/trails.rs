//! What happened to an item: one entry per attempt of each stage.

use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The trails of all items. Entries are only ever added; what is too old is thrown away as a whole.
#[async_trait::async_trait]
pub trait Trails: Debug + Send + Sync {
    /// Adds entries. When this returns they survive the end of the process.
    async fn record(&self, entries: &[TrailEntry]) -> Result<(), StoreError>;

    /// The trail of one item, oldest entry first, entries of the same time in the order they were added.
    /// Empty if there is none.
    async fn of_item(&self, item: &str) -> Result<Vec<TrailEntry>, StoreError>;

    /// The trails of all items that were about this subject, up to so many items, the one with the latest
    /// entry first, each as [`of_item`](Trails::of_item) has it.
    async fn of_subject(&self, subject: &str, most: usize) -> Result<Vec<Vec<TrailEntry>>, StoreError>;

    /// The items whose trail is open, up to so many, in order of id (by its octets): the latest entry that does
    /// not close it is later than every one that does. An end of the very same time closes it.
    async fn open(&self, most: usize) -> Result<Vec<String>, StoreError>;

    /// Throws away up to `most` entries from before this time, oldest first, and says how many.
    async fn expire(&self, before: Timestamp, most: usize) -> Result<u64, StoreError>;
}

/// One attempt of one stage at one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrailEntry {
    /// The item's id.
    pub item: String,
    /// What the item is about, such as its URL, so that its trail can be found by that too.
    pub subject: Option<String>,
    /// The flow, such as `search`.
    pub flow: String,
    /// The stage, such as `crawl`.
    pub stage: String,
    /// When the attempt ended.
    pub at: Timestamp,
    /// How it ended, for programs.
    pub end: End,
    /// How it ended in the stage's own words, such as `published` or `unchanged`.
    pub outcome: String,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The process that made it.
    pub worker: String,
    /// How often the item had been replayed by then.
    #[serde(default)]
    pub replays: u32,
    /// More about an attempt that did not fail: what came of it, why the item waits, what it is replayed after.
    #[serde(default)]
    pub note: Option<String>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Nothing more is to happen to the item.
    Done,
    /// The stage is done with the item and has sent it on to the next one.
    Passed,
    /// It failed and is tried again.
    Retried,
    /// It was not its turn.
    Deferred,
    /// It waits for something of ours that is out of order; no fault of the item.
    Waited,
    /// It was given up.
    Dead,
    /// It was taken out of the dead letters again.
    Replayed,
}

impl End {
    /// All of them.
    pub const ALL: [End; 7] =
        [End::Done, End::Passed, End::Retried, End::Deferred, End::Waited, End::Dead, End::Replayed];

    /// The word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Passed => "passed",
            End::Retried => "retried",
            End::Deferred => "deferred",
            End::Waited => "waited",
            End::Dead => "dead",
            End::Replayed => "replayed",
        }
    }

    /// The end that a stored word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == word)
    }

    /// Whether something went wrong.
    pub const fn is_failure(self) -> bool {
        matches!(self, End::Retried | End::Waited | End::Dead)
    }

    /// A text about an attempt that ended so, as the note or as the error of its entry.
    pub fn note_or_error(self, text: Option<String>) -> (Option<String>, Option<String>) {
        if self.is_failure() { (None, text) } else { (text, None) }
    }

    /// Whether nothing is still to happen to the item.
    pub const fn closes(self) -> bool {
        matches!(self, End::Done | End::Dead)
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
