//! JSON of dead letters.

use super::UnavailableQueue;
use base64::{Engine, prelude::BASE64_STANDARD};
use crawlway_broker::{DeadLetter, Headers};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// List of dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadList {
    /// Dead letters by queue, the oldest first, without headers and bodies.
    pub dead: Vec<DeadLetterView>,
    /// Pagination cursors of the queues with further dead letters.
    pub next: Vec<DeadListCursor>,
    /// Queues whose broker does not respond, while others do. Absent if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableQueue>,
}

/// Pagination cursor of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NextDead)]
pub struct DeadListCursor {
    /// Queue.
    pub queue: String,
    /// The `after` of the next request.
    pub after: String,
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Replayed {
    /// Queue.
    pub queue: String,
    /// Number of replayed dead letters.
    pub replayed: u64,
    /// Error that stopped the replay early; the remaining dead letters are kept.
    pub stopped: Option<String>,
}

/// Result of a removal of dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Dropped {
    /// Queue.
    pub queue: String,
    /// Number of removed dead letters.
    pub dropped: u64,
}

/// Dead letter: a message that failed for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Letter)]
pub struct DeadLetterView {
    /// Id of the dead letter.
    pub id: String,
    /// Queue of the message.
    pub queue: String,
    /// URL in the message, if there is one.
    pub url: Option<String>,
    /// Cause of the failure.
    pub cause: DeadLetterCauseView,
    /// Reason in words.
    pub reason: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Number of earlier replays.
    pub replays: u32,
    /// Time at which it became a dead letter.
    pub dead_at: String,
    /// First failed attempt.
    pub first_error: Option<Failure>,
    /// Last failed attempt.
    pub last_error: Option<Failure>,
    /// Message.
    pub message: DeadLetterMessage,
}

/// Cause of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeathCause)]
pub enum DeadLetterCauseView {
    /// All attempts failed.
    AttemptsUsedUp,
    /// Its worker process was lost while it ran solo.
    WorkerLost,
    /// Rejected by its stage.
    Refused,
}

impl From<crawlway_broker::DeadLetterCause> for DeadLetterCauseView {
    fn from(cause: crawlway_broker::DeadLetterCause) -> Self {
        match cause {
            crawlway_broker::DeadLetterCause::AttemptsUsedUp => Self::AttemptsUsedUp,
            crawlway_broker::DeadLetterCause::WorkerLost => Self::WorkerLost,
            crawlway_broker::DeadLetterCause::Refused => Self::Refused,
        }
    }
}

impl From<DeadLetterCauseView> for crawlway_broker::DeadLetterCause {
    fn from(cause: DeadLetterCauseView) -> Self {
        match cause {
            DeadLetterCauseView::AttemptsUsedUp => Self::AttemptsUsedUp,
            DeadLetterCauseView::WorkerLost => Self::WorkerLost,
            DeadLetterCauseView::Refused => Self::Refused,
        }
    }
}

/// Failed attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// Error message.
    pub error: String,
    /// Time of the failure.
    pub at: String,
}

/// Message of a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = LetterMessage)]
pub struct DeadLetterMessage {
    /// Item id.
    pub id: String,
    /// Message key.
    pub key: Option<String>,
    /// Message group.
    pub group: Option<String>,
    /// Time of the publish.
    pub published_at: String,
    /// Size of the body.
    pub body_bytes: usize,
    /// Headers; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// Body, if it is UTF-8; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Body in Base64, if it is not UTF-8; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

impl DeadLetterView {
    /// Dead letter without headers and body, for lists.
    pub fn summary(letter: &DeadLetter) -> Self {
        let failure = |failure: &crawlway_broker::Failure| Failure {
            error: failure.error.clone(),
            at: failure.at.to_iso(),
        };
        Self {
            id: letter.id.to_string(),
            queue: letter.queue.to_string(),
            url: url_of(letter),
            cause: letter.cause.into(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
            replays: letter.replays,
            dead_at: letter.dead_at.to_iso(),
            first_error: letter.first_error.as_ref().map(failure),
            last_error: letter.last_error.as_ref().map(failure),
            message: DeadLetterMessage {
                id: letter.message.id.to_string(),
                key: letter.message.key.clone(),
                group: letter.message.group.clone(),
                published_at: letter.message.published_at.to_iso(),
                body_bytes: letter.message.body.len(),
                headers: None,
                body: None,
                body_base64: None,
            },
        }
    }

    /// Dead letter with headers and body.
    pub fn full(letter: &DeadLetter) -> Self {
        let mut full = Self::summary(letter);
        full.message.headers = Some(letter.message.headers.clone());
        match std::str::from_utf8(&letter.message.body) {
            Ok(text) => full.message.body = Some(text.to_owned()),
            Err(_) => full.message.body_base64 = Some(BASE64_STANDARD.encode(&letter.message.body)),
        }
        full
    }
}

/// URL of a message: its key (frontier), or the field `url` of its body (all flows).
fn url_of(letter: &DeadLetter) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        url: String,
    }
    let is_url = |text: &String| text.starts_with("http://") || text.starts_with("https://");
    let in_key = letter.message.key.clone().filter(is_url);
    in_key.or_else(|| serde_json::from_slice::<Body>(&letter.message.body).ok().map(|body| body.url))
}
