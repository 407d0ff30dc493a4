//! Dead letters: messages that no further attempt can help, with what happened to them.

use crate::{Message, PublishError, QueueName, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// Names one dead letter for as long as it is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeadId(pub String);

impl fmt::Display for DeadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What went wrong.
    pub error: String,
    /// When.
    pub at: Timestamp,
}

/// What ended a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// All its attempts failed.
    AttemptsUsedUp,
    /// It took its workers' processes with it while they ran nothing else.
    WorkerLost,
    /// Its stage gave it up.
    Refused,
}

impl Cause {
    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsUsedUp => "attempts_used_up",
            Self::WorkerLost => "worker_lost",
            Self::Refused => "refused",
        }
    }
}

/// A message that was given up, whole, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Names this dead letter.
    pub id: DeadId,
    /// The queue it was taken from and would be replayed into.
    pub queue: QueueName,
    /// The message as it was published.
    pub message: Message,
    /// What ended it.
    pub cause: Cause,
    /// Why it was given up.
    pub reason: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// The first attempt that failed, if one did.
    pub first_error: Option<Failure>,
    /// The last attempt that failed, if one did.
    pub last_error: Option<Failure>,
    /// When it was given up.
    pub dead_at: Timestamp,
    /// How often it had been replayed before.
    pub replays: u32,
}

/// Which dead letters are meant. Every condition that is set must hold; the default means all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadFilter {
    /// Just this one.
    pub id: Option<DeadId>,
    /// Those of these; none means that any will do.
    pub ids: BTreeSet<DeadId>,
    /// Those of this message.
    pub message_id: Option<String>,
    /// Ended by this.
    pub cause: Option<Cause>,
    /// The reason contains this text, whatever the case.
    pub reason: Option<String>,
    /// The first or the last error contains this text, whatever the case.
    pub error: Option<String>,
    /// Died at this time or later.
    pub since: Option<Timestamp>,
    /// Died before this time.
    pub until: Option<Timestamp>,
}

impl DeadFilter {
    /// Every dead letter of the queue.
    pub fn all() -> Self {
        Self::default()
    }

    /// One dead letter.
    pub fn one(id: DeadId) -> Self {
        Self { id: Some(id), ..Self::default() }
    }

    /// These dead letters.
    pub fn these(ids: impl IntoIterator<Item = DeadId>) -> Self {
        Self { ids: ids.into_iter().collect(), ..Self::default() }
    }

    /// How many letters can be meant at most, if they are named one by one.
    pub fn at_most(&self) -> Option<usize> {
        match (&self.id, self.ids.len()) {
            (Some(_), _) => Some(1),
            (None, 0) => None,
            (None, many) => Some(many),
        }
    }

    /// Whether this letter is meant.
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

/// Some dead letters, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadPage {
    /// The letters, oldest first.
    pub letters: Vec<DeadLetter>,
    /// Ask for what comes after this one to go on; `None` at the end.
    pub next: Option<DeadId>,
}

/// What a replay did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayed {
    /// How many letters are back in their queue.
    pub count: u64,
    /// Why it stopped early, if it did. What was not replayed is still a dead letter.
    pub stopped: Option<PublishError>,
}
