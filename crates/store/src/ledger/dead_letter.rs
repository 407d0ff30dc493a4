//! Dead letters: messages without further attempts, with their bodies and details.

use super::{Failure, MessageKey};
use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Maximum number of letters of a page.
pub const MAX_PAGE_SIZE: usize = 1000;

/// Number of a dead letter, never used again. Later letters have greater numbers, also of other queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeadLetterId(pub u64);

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Dead letter to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// Its key.
    pub message: MessageKey,
    /// Why it is dead, and its parts but the body.
    pub detail: DeadLetterDetail,
    /// Its body.
    pub body: Vec<u8>,
}

/// Detail of a dead letter. The ledger stores it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeadLetterDetail {
    /// Item id of the message.
    pub item: String,
    /// Partition key of the message.
    pub partition_key: Option<String>,
    /// Group of the message.
    pub group: Option<String>,
    /// Headers of the message.
    pub headers: BTreeMap<String, String>,
    /// When the message was published.
    pub published_at: Timestamp,
    /// Name of the cause, such as `worker_lost`.
    pub cause: String,
    /// Explanation in words.
    pub reason: String,
    /// Number of attempts made.
    pub attempts: u32,
    /// Error of the first failed attempt.
    pub first_error: Option<Failure>,
    /// Error of the last failed attempt.
    pub last_error: Option<Failure>,
    /// Number of replays before.
    pub replays: u32,
    /// Parts of the message that could not be kept, such as `duplicate-header NAME`: a replay has them, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub defects: Vec<String>,
}

impl DeadLetterDetail {
    /// The stored form, JSON.
    pub fn to_json(&self) -> Result<String, StoreError> {
        serde_json::to_string(self).map_err(|error| StoreError::Invalid {
            problem: format!("a dead letter cannot be written as JSON: {error}"),
        })
    }

    /// Parses the stored form.
    pub fn from_json(json: &str) -> Result<Self, StoreError> {
        serde_json::from_str(json).map_err(|error| StoreError::Unavailable {
            detail: format!("a stored dead letter is damaged: {error}"),
        })
    }
}

/// A dead letter without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its number.
    pub id: DeadLetterId,
    /// Key of the message.
    pub message: MessageKey,
    /// Detail, as stored.
    pub detail: DeadLetterDetail,
    /// Length of the body in bytes.
    pub body_len: u64,
    /// Time at which it became a dead letter.
    pub dead_at: Timestamp,
    /// Number of replays that have begun; 0 at first.
    pub epoch: u64,
}

/// Filter over dead letters. All conditions that are set must hold; the default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterFilter {
    /// Letters with one of these ids; empty means any.
    pub ids: BTreeSet<DeadLetterId>,
    /// Letters of this item.
    pub item: Option<String>,
    /// Letters with this cause.
    pub cause: Option<String>,
    /// Text that the reason contains, ignoring case.
    pub reason: Option<String>,
    /// Text that the first or the last error contains, ignoring case.
    pub error: Option<String>,
    /// Dead since this time or later.
    pub since: Option<Timestamp>,
    /// Dead before this time.
    pub until: Option<Timestamp>,
}

impl DeadLetterFilter {
    /// Whether the filter matches this letter. Backends apply it, so that all match alike.
    pub fn matches(&self, letter: &DeadLetter) -> bool {
        let detail = &letter.detail;
        let contains = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let failed_with = |part: &String| {
            let mut failures = detail.first_error.iter().chain(&detail.last_error);
            failures.any(|failure| contains(&failure.error, part))
        };
        (self.ids.is_empty() || self.ids.contains(&letter.id))
            && self.item.as_ref().is_none_or(|item| *item == detail.item)
            && self.cause.as_ref().is_none_or(|cause| *cause == detail.cause)
            && self.reason.as_ref().is_none_or(|part| contains(&detail.reason, part))
            && self.error.as_ref().is_none_or(failed_with)
            && self.since.is_none_or(|since| letter.dead_at >= since)
            && self.until.is_none_or(|until| letter.dead_at < until)
    }
}

/// A page of dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterPage {
    /// Letters, oldest first.
    pub letters: Vec<DeadLetter>,
    /// Pagination cursor: pass it as `after` for the next page. `None` on the last page.
    pub next: Option<DeadLetterId>,
}

/// Scan of a queue's dead letters for one page. Backends read the batches that it asks for.
#[derive(Debug)]
pub struct DeadLetterScan<'f> {
    filter: &'f DeadLetterFilter,
    limit: usize,
    after: DeadLetterId,
    page: DeadLetterPage,
    finished: bool,
}

/// Letters of a queue to be read, in the order of their numbers.
#[derive(Debug)]
pub enum DeadLetterBatch {
    /// Up to [`MAX`](Self::MAX) letters after this one.
    After(DeadLetterId),
    /// Those of these letters that are dead and of this queue.
    Picked(Vec<DeadLetterId>),
}

impl DeadLetterBatch {
    /// Maximum number of letters of a batch.
    pub const MAX: usize = 128;
}

impl<'f> DeadLetterScan<'f> {
    /// A scan for the page of [`Ledger::dead_letters`](super::Ledger::dead_letters) with these arguments.
    pub fn new(filter: &'f DeadLetterFilter, after: Option<DeadLetterId>, limit: usize) -> Self {
        let page = DeadLetterPage::default();
        let after = after.unwrap_or(DeadLetterId(0));
        Self { filter, limit: limit.min(MAX_PAGE_SIZE), after, page, finished: limit == 0 }
    }

    /// The batch to be read and [added](Self::add) next; `None` once the page is complete.
    pub fn next_batch(&self) -> Option<DeadLetterBatch> {
        if self.finished {
            return None;
        }
        if self.filter.ids.is_empty() {
            return Some(DeadLetterBatch::After(self.after));
        }
        let picked = self.filter.ids.range(DeadLetterId(self.after.0.saturating_add(1))..);
        let picked: Vec<DeadLetterId> = picked.copied().take(DeadLetterBatch::MAX).collect();
        (!picked.is_empty()).then_some(DeadLetterBatch::Picked(picked))
    }

    /// Adds the letters of a batch.
    pub fn add(&mut self, batch: DeadLetterBatch, letters: Vec<DeadLetter>) {
        match batch {
            DeadLetterBatch::After(_) => {
                self.finished = letters.len() < DeadLetterBatch::MAX;
                self.after = letters.last().map_or(self.after, |last| last.id);
            }
            DeadLetterBatch::Picked(picked) => {
                self.after = picked.last().copied().unwrap_or(self.after);
            }
        }
        for letter in letters.into_iter().filter(|letter| self.filter.matches(letter)) {
            if self.page.letters.len() == self.limit {
                self.page.next = self.page.letters.last().map(|last| last.id);
                self.finished = true;
                return;
            }
            self.page.letters.push(letter);
        }
    }

    /// The page.
    pub fn into_page(self) -> DeadLetterPage {
        self.page
    }
}

/// Outcome of adding a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddDeadLetterOutcome {
    /// It is a dead letter, since now or before: go on with step 2 of its [dead-lettering](super#order-of-dead-lettering).
    Dead(DeadLetterId),
    /// It was one, which was replayed or dropped meanwhile: only settle it at the broker.
    Closed,
    /// Another session has it in flight, or this session is lost.
    Fenced,
}

/// A replay that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replay {
    /// The letter.
    pub letter: DeadLetterId,
    /// Number of this replay of the letter, from 1. Published with the message.
    pub epoch: u64,
}

/// Outcome of beginning a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// Publish the message with this epoch, then end the replay.
    Begun(Replay),
    /// Another replay of the letter has begun and has this long to end.
    Busy {
        /// End of its lease.
        until: Timestamp,
    },
    /// The letter is closed or unknown.
    Closed,
}
