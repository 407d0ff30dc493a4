//! Dead letters as programs see them. Their times are texts such as `2026-11-15T09:30:00.250Z`.

use base64::{Engine, prelude::BASE64_STANDARD};
use crawlway_broker::{DeadLetter, Headers};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Some dead letters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadList {
    /// Queue by queue, of each the oldest first, without headers and bodies.
    pub dead: Vec<Letter>,
    /// The queues that have more.
    pub next: Vec<NextDead>,
}

/// Where the list of a queue goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NextDead {
    /// The queue.
    pub queue: String,
    /// Give this as `after` to go on.
    pub after: String,
}

/// What a replay did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Replayed {
    /// The queue.
    pub queue: String,
    /// How many letters are back in it.
    pub replayed: u64,
    /// Why it stopped early, if it did; what was not replayed is still a dead letter.
    pub stopped: Option<String>,
}

/// What was thrown away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Dropped {
    /// The queue.
    pub queue: String,
    /// How many letters were thrown away.
    pub dropped: u64,
}

/// A message that was given up, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Letter {
    /// Names it for as long as it is a dead letter.
    pub id: String,
    /// The queue it was taken from.
    pub queue: String,
    /// The URL that it is about, if it names one.
    pub url: Option<String>,
    /// What ended it.
    pub cause: Cause,
    /// Why it was given up.
    pub reason: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// How often it had been replayed before.
    pub replays: u32,
    /// When it was given up.
    pub dead_at: String,
    /// The first attempt that failed.
    pub first_error: Option<Failure>,
    /// The last attempt that failed.
    pub last_error: Option<Failure>,
    /// The message.
    pub message: LetterMessage,
}

/// What ended a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DeathCause)]
pub enum Cause {
    /// All its attempts failed.
    AttemptsUsedUp,
    /// It took its workers' processes with it while they ran nothing else.
    WorkerLost,
    /// Its stage gave it up.
    Refused,
}

impl From<crawlway_broker::Cause> for Cause {
    fn from(cause: crawlway_broker::Cause) -> Self {
        match cause {
            crawlway_broker::Cause::AttemptsUsedUp => Self::AttemptsUsedUp,
            crawlway_broker::Cause::WorkerLost => Self::WorkerLost,
            crawlway_broker::Cause::Refused => Self::Refused,
        }
    }
}

impl From<Cause> for crawlway_broker::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::AttemptsUsedUp => Self::AttemptsUsedUp,
            Cause::WorkerLost => Self::WorkerLost,
            Cause::Refused => Self::Refused,
        }
    }
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// What went wrong.
    pub error: String,
    /// When.
    pub at: String,
}

/// The message of a dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LetterMessage {
    /// The item's id.
    pub id: String,
    /// Its key.
    pub key: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// When the broker took it.
    pub published_at: String,
    /// How long its body is.
    pub body_bytes: usize,
    /// Its headers; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Headers>,
    /// Its body, if that is text; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Its body, if that is not text; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

impl Letter {
    /// All but the headers and the body, for lists.
    pub fn outline(letter: &DeadLetter) -> Self {
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
            message: LetterMessage {
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

    /// All of it.
    pub fn whole(letter: &DeadLetter) -> Self {
        let mut whole = Self::outline(letter);
        whole.message.headers = Some(letter.message.headers.clone());
        match std::str::from_utf8(&letter.message.body) {
            Ok(text) => whole.message.body = Some(text.to_owned()),
            Err(_) => whole.message.body_base64 = Some(BASE64_STANDARD.encode(&letter.message.body)),
        }
        whole
    }
}

/// The URL that a message names: in its key, as the frontier has it, or as the field `url` of its body, as all flows have it.
fn url_of(letter: &DeadLetter) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        url: String,
    }
    let is_url = |text: &String| text.starts_with("http://") || text.starts_with("https://");
    let in_key = letter.message.key.clone().filter(is_url);
    in_key.or_else(|| serde_json::from_slice::<Named>(&letter.message.body).ok().map(|named| named.url))
}
