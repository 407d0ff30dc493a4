//! Wire format: a message of SQS with its bookkeeping in one packed attribute.
//!
//! The attribute `crawlway` is JSON: id, key, group, headers, times, encoding of the body, history. A body is plain text if SQS can carry it,
//! else base64; an empty one is marked, since SQS refuses it.

use aws_sdk_sqs::types::{
    self, MessageAttributeValue, MessageSystemAttributeName, SendMessageBatchRequestEntry,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use crawlway_broker::{
    Bytes, Death, Defect, Failure, Headers, Message, MessageId, Outgoing, Timestamp, history::History,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const ATTRIBUTE: &str = "crawlway";
const TEXT_TYPE: &str = "String";
/// Body of an empty message.
const EMPTY_BODY: &str = "-";

/// Encoding of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    #[default]
    Plain,
    Base64,
    Empty,
}

/// The packed attribute.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Packed {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Headers::is_empty")]
    headers: Headers,
    #[serde(skip_serializing_if = "Option::is_none")]
    published_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_plain")]
    encoding: Encoding,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<PackedHistory>,
    /// Number of the replay of a dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    /// Cause and reason of a dead letter; ignored when it comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<(String, String)>,
}

fn is_plain(encoding: &Encoding) -> bool {
    *encoding == Encoding::Plain
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
struct PackedHistory {
    attempt: u32,
    replays: u32,
    losses: u32,
    solo_crashes: u32,
    not_before: Option<Timestamp>,
    first_error: Option<Failure>,
    last_error: Option<Failure>,
}

impl Default for PackedHistory {
    fn default() -> Self {
        Self::from(&History::default())
    }
}

impl From<&History> for PackedHistory {
    fn from(history: &History) -> Self {
        Self {
            attempt: history.attempt,
            replays: history.replays,
            losses: history.losses,
            solo_crashes: history.solo_crashes,
            not_before: history.not_before,
            first_error: history.first_error.clone(),
            last_error: history.last_error.clone(),
        }
    }
}

impl From<PackedHistory> for History {
    fn from(packed: PackedHistory) -> Self {
        Self {
            attempt: packed.attempt.max(1),
            replays: packed.replays,
            losses: packed.losses,
            solo_crashes: packed.solo_crashes,
            not_before: packed.not_before,
            first_error: packed.first_error,
            last_error: packed.last_error,
        }
    }
}

/// A message to send.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    body: String,
    attribute: String,
    /// Message group, and deduplication id.
    pub(crate) group: String,
    pub(crate) nonce: String,
}

impl Publication {
    /// Size in SQS: body, and name, type and value of the attribute.
    pub(crate) fn size(&self) -> u64 {
        (self.body.len() + ATTRIBUTE.len() + TEXT_TYPE.len() + self.attribute.len()) as u64
    }

    /// Entry of a batch, with its index as id.
    pub(crate) fn entry(&self, index: usize) -> SendMessageBatchRequestEntry {
        let value = MessageAttributeValue::builder().data_type(TEXT_TYPE).string_value(&self.attribute);
        let entry = SendMessageBatchRequestEntry::builder()
            .id(index.to_string())
            .message_body(&self.body)
            .message_group_id(&self.group)
            .message_deduplication_id(&self.nonce);
        let entry =
            value.build().map(|value| entry.clone().message_attributes(ATTRIBUTE, value)).unwrap_or(entry);
        entry.build().unwrap_or_else(|error| unreachable!("id and body are set: {error}"))
    }
}

/// Where a message goes in its queue.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) group: String,
    pub(crate) nonce: String,
}

/// A new message.
pub(crate) fn encode_new(message: &Outgoing, now: Timestamp, place: Place) -> Publication {
    let history = message.not_before.map(|time| History { not_before: Some(time), ..History::default() });
    let packed = Packed {
        id: message.id.to_string(),
        key: message.key.clone(),
        group: message.group.clone(),
        headers: message.headers.clone(),
        published_at: Some(now),
        history: history.as_ref().map(PackedHistory::from),
        ..Packed::default()
    };
    publication(packed, &message.body, place)
}

/// Copy of a message with another history: sent again, replayed, or for the dead queue.
pub(crate) fn encode_copy(
    message: &Message,
    history: &History,
    epoch: Option<u64>,
    death: Option<&Death>,
    place: Place,
) -> Publication {
    let packed = Packed {
        id: message.id.to_string(),
        key: message.key.clone(),
        group: message.group.clone(),
        headers: message.headers.clone(),
        published_at: Some(message.published_at),
        history: Some(PackedHistory::from(history)),
        epoch,
        dead: death.map(|death| (death.cause.as_str().to_owned(), death.reason.clone())),
        ..Packed::default()
    };
    publication(packed, &message.body, place)
}

fn publication(mut packed: Packed, body: &Bytes, Place { group, nonce }: Place) -> Publication {
    let body = match std::str::from_utf8(body) {
        Ok("") => {
            packed.encoding = Encoding::Empty;
            EMPTY_BODY.to_owned()
        }
        Ok(text) if text.chars().all(is_allowed) => text.to_owned(),
        _ => {
            packed.encoding = Encoding::Base64;
            BASE64_STANDARD.encode(body)
        }
    };
    // JSON escapes control characters, but not these two, which SQS refuses.
    let attribute = serde_json::to_string(&packed).unwrap_or_default();
    let attribute =
        attribute.replace('\u{7f}', "\\u007f").replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    Publication { body, attribute, group, nonce }
}

/// Whether SQS carries a character: XML 1.0's set.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{fffd}' | '\u{10000}'..)
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Received {
    /// Id of the message in SQS: the same in every delivery.
    pub(crate) message_id: String,
    pub(crate) handle: String,
    pub(crate) sent: Timestamp,
    pub(crate) message: Message,
    pub(crate) history: History,
}

/// Decodes a message. What the contract cannot represent of a foreign one becomes defects.
pub(crate) fn decode(received: types::Message) -> Option<Received> {
    let (message_id, handle) = (received.message_id?, received.receipt_handle?);
    let system = received.attributes.unwrap_or_default();
    let sent = system.get(&MessageSystemAttributeName::SentTimestamp).and_then(|time| time.parse().ok());
    let sent = sent.map_or_else(Timestamp::now, Timestamp::from_millis);
    let attributes = received.message_attributes.unwrap_or_default();
    let packed = attributes.get(ATTRIBUTE).and_then(MessageAttributeValue::string_value);
    let packed = packed.and_then(|json| serde_json::from_str::<Packed>(json).ok());
    let body = received.body.unwrap_or_default();
    let group = system.get(&MessageSystemAttributeName::MessageGroupId);
    let (message, history) = match packed {
        Some(packed) => own(packed, body, sent),
        None => (foreign(&message_id, group, &attributes, body, sent), History::default()),
    };
    Some(Received { message_id, handle, sent, message, history })
}

fn own(packed: Packed, body: String, sent: Timestamp) -> (Message, History) {
    let body = match packed.encoding {
        Encoding::Plain => Bytes::from(body),
        Encoding::Empty => Bytes::new(),
        Encoding::Base64 => BASE64_STANDARD.decode(&body).map_or_else(|_| Bytes::from(body), Bytes::from),
    };
    let message = Message {
        id: MessageId::from(packed.id.as_str()),
        key: packed.key,
        group: packed.group,
        headers: packed.headers,
        body,
        published_at: packed.published_at.unwrap_or(sent),
        defects: Vec::new(),
    };
    (message, packed.history.map(History::from).unwrap_or_default())
}

/// Message of another program: text attributes are headers.
fn foreign(
    message_id: &str,
    group: Option<&String>,
    attributes: &HashMap<String, MessageAttributeValue>,
    body: String,
    sent: Timestamp,
) -> Message {
    let (mut headers, mut defects) = (Headers::new(), Vec::new());
    for (name, value) in attributes {
        match value.string_value() {
            Some(text) => drop(headers.insert(name.clone(), text.to_owned())),
            None => defects.push(Defect::BinaryHeader(name.clone())),
        }
    }
    defects.sort();
    Message {
        id: MessageId::from(message_id),
        key: None,
        group: group.cloned(),
        headers,
        body: Bytes::from(body),
        published_at: sent,
        defects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_broker::QueueName;

    fn round_trip(body: &[u8]) -> Message {
        let queue = QueueName::new("q").unwrap();
        let message =
            Outgoing::to_queue(&queue, body.to_vec()).key("k").group("g").header("a\u{fffe}", "\u{0}é");
        let place = Place { group: "g".into(), nonce: "n".into() };
        let entry = encode_new(&message, Timestamp::now(), place).entry(0);
        assert!(entry.message_body().chars().all(is_allowed) && !entry.message_body().is_empty());
        let received =
            types::Message::builder().message_id("m").receipt_handle("h").body(entry.message_body());
        let received = received.set_message_attributes(entry.message_attributes().cloned()).build();
        let attribute = entry.message_attributes().unwrap()[ATTRIBUTE].string_value().unwrap().to_owned();
        assert!(attribute.chars().all(is_allowed), "{attribute}");
        let decoded = decode(received).unwrap().message;
        assert_eq!((&decoded.key, &decoded.group), (&message.key, &message.group));
        assert_eq!((&decoded.headers, &decoded.id), (&message.headers, &message.id));
        decoded
    }

    #[test]
    fn every_body_is_carried() {
        for body in [&b""[..], b"-", b"text", b"\0\xff", "\u{fffe}".as_bytes(), "\u{1f600}\n".as_bytes()] {
            assert_eq!(round_trip(body).body, body);
        }
    }

    #[test]
    fn attributes_count_as_size() {
        let message = Outgoing::to_queue(&QueueName::new("q").unwrap(), "body").header("h", "x".repeat(1000));
        let publication =
            encode_new(&message, Timestamp::now(), Place { group: "g".into(), nonce: "n".into() });
        assert!(publication.size() > 1004 + "crawlway".len() as u64 + "String".len() as u64);
    }
}
