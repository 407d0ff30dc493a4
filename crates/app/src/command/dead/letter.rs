//! A dead letter as programs see it.

use crate::time::iso;
use base64::{Engine, prelude::BASE64_STANDARD};
use crawlway_broker::{DeadLetter, Failure, Headers};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Letter {
    id: String,
    queue: String,
    reason: String,
    attempts: u32,
    replays: u32,
    dead_at: String,
    first_error: Option<FailureAt>,
    last_error: Option<FailureAt>,
    message: MessagePart,
}

#[derive(Serialize)]
struct FailureAt {
    error: String,
    at: String,
}

#[derive(Serialize)]
struct MessagePart {
    id: String,
    key: Option<String>,
    group: Option<String>,
    published_at: String,
    body_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Headers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl Letter {
    /// All but the headers and the body, for lists.
    pub(super) fn outline(letter: &DeadLetter) -> Self {
        let failure = |failure: &Failure| FailureAt { error: failure.error.clone(), at: iso(failure.at) };
        Self {
            id: letter.id.to_string(),
            queue: letter.queue.to_string(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
            replays: letter.replays,
            dead_at: iso(letter.dead_at),
            first_error: letter.first_error.as_ref().map(failure),
            last_error: letter.last_error.as_ref().map(failure),
            message: MessagePart {
                id: letter.message.id.to_string(),
                key: letter.message.key.clone(),
                group: letter.message.group.clone(),
                published_at: iso(letter.message.published_at),
                body_bytes: letter.message.body.len(),
                headers: None,
                body: None,
                body_base64: None,
            },
        }
    }

    pub(super) fn whole(letter: &DeadLetter) -> Self {
        let mut whole = Self::outline(letter);
        whole.message.headers = Some(letter.message.headers.clone());
        match std::str::from_utf8(&letter.message.body) {
            Ok(text) => whole.message.body = Some(text.to_owned()),
            Err(_) => whole.message.body_base64 = Some(BASE64_STANDARD.encode(&letter.message.body)),
        }
        whole
    }
}
