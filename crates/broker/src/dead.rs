//! Dead letters: messages without further attempts, with their failure history.

use crate::{Message, PublishError, QueueName, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// Identifier of a dead letter, stable until it is replayed or dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeadLetterId(pub String);

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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

/// Why a message became a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterCause {
    /// The last of its `max_attempts` failed.
    AttemptsUsedUp,
    /// Its worker's process crashed `max_solo_crashes` times while it ran nothing else.
    WorkerLost,
    /// Its stage rejected it ([`Verdict::Dead`](crate::Verdict::Dead)).
    Refused,
}

impl DeadLetterCause {
    /// The cause of this name in JSON.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::AttemptsUsedUp, Self::WorkerLost, Self::Refused]
            .into_iter()
            .find(|cause| cause.as_str() == name)
    }

    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsUsedUp => "attempts_used_up",
            Self::WorkerLost => "worker_lost",
            Self::Refused => "refused",
        }
    }
}

/// Why a message becomes a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The cause.
    pub cause: DeadLetterCause,
    /// Explanation in words.
    pub reason: String,
}

impl Death {
    /// Death of a message whose last attempt failed.
    pub fn after_attempts(attempts: u32, error: &str) -> Self {
        let reason = format!("gave up after {}: {error}", times(attempts, "attempt"));
        Self { cause: DeadLetterCause::AttemptsUsedUp, reason }
    }

    /// Death of a message whose worker was lost so often while it ran nothing else.
    pub fn after_solo_crashes(crashes: u32) -> Self {
        let reason = format!("its worker was lost {} while it ran nothing else", times(crashes, "time"));
        Self { cause: DeadLetterCause::WorkerLost, reason }
    }
}

fn times(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A dead letter: the whole message, why it is dead, and its first and last error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Identifier of the dead letter.
    pub id: DeadLetterId,
    /// Queue it was consumed from, and is replayed to.
    pub queue: QueueName,
    /// The message as published.
    pub message: Message,
    /// Why it is dead.
    pub cause: DeadLetterCause,
    /// Explanation in words.
    pub reason: String,
    /// Number of attempts made.
    pub attempts: u32,
    /// Error of the first failed attempt, if one failed.
    pub first_error: Option<Failure>,
    /// Error of the last failed attempt, if one failed.
    pub last_error: Option<Failure>,
    /// Time at which it became a dead letter.
    pub dead_at: Timestamp,
    /// Number of replays before.
    pub replays: u32,
}

/// Filter over dead letters. All conditions that are set must hold; the default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterFilter {
    /// The dead letter with this id.
    pub id: Option<DeadLetterId>,
    /// Dead letters with one of these ids; empty means any.
    pub ids: BTreeSet<DeadLetterId>,
    /// Dead letters of the message with this id.
    pub message_id: Option<String>,
    /// Dead letters with this cause.
    pub cause: Option<DeadLetterCause>,
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
    /// Filter that matches every dead letter.
    pub fn all() -> Self {
        Self::default()
    }

    /// Filter that matches one dead letter.
    pub fn with_id(id: DeadLetterId) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// Filter that matches these dead letters.
    pub fn with_ids(ids: impl IntoIterator<Item = DeadLetterId>) -> Self {
        Self { ids: ids.into_iter().collect(), ..Self::default() }
    }

    /// Maximum number of matches, if the filter lists ids.
    pub fn max_matches(&self) -> Option<usize> {
        match (&self.id, self.ids.len()) {
            (Some(_), _) => Some(1),
            (None, 0) => None,
            (None, many) => Some(many),
        }
    }

    /// Whether the filter matches this dead letter.
    pub fn matches(&self, letter: &DeadLetter) -> bool {
        let contains = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        let failed_with = |failure: &Option<Failure>, part: &str| {
            failure.as_ref().is_some_and(|failure| contains(&failure.error, part))
        };
        self.id.as_ref().is_none_or(|id| *id == letter.id)
            && (self.ids.is_empty() || self.ids.contains(&letter.id))
            && self.message_id.as_ref().is_none_or(|id| id == letter.message.id.as_str())
            && self.cause.is_none_or(|cause| cause == letter.cause)
            && self.reason.as_ref().is_none_or(|part| contains(&letter.reason, part))
            && self.error.as_ref().is_none_or(|part| {
                failed_with(&letter.first_error, part) || failed_with(&letter.last_error, part)
            })
            && self.since.is_none_or(|since| letter.dead_at >= since)
            && self.until.is_none_or(|until| letter.dead_at < until)
    }
}

/// A page of dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterPage {
    /// Dead letters, oldest first.
    pub letters: Vec<DeadLetter>,
    /// Pagination cursor: pass it as `after` for the next page. `None` on the last page.
    pub next: Option<DeadLetterId>,
}

/// Outcome of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplayOutcome {
    /// Number of dead letters that are back in their queue.
    pub count: u64,
    /// Why the replay stopped early, if it did. The rest are still dead letters.
    pub stopped: Option<PublishError>,
}
