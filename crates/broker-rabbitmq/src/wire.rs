//! Wire format: encoding and decoding of AMQP messages, with the broker's bookkeeping in headers.
//!
//! A newly published message has no headers of the broker but its key and group. A copy (retry, deferral, dead letter) keeps
//! every property and header of the original, including those of other programs.

use crate::header_limit::{LEFT_OUT, trim_headers};
use bytes::Bytes;
use crawlway_broker::{
    DeadLetter, DeadLetterCause, DeadLetterId, Death, Defect, Headers, Message, MessageId, Outgoing,
    QueueName, Timestamp,
    history::{ATTEMPT, DEAD_CAUSE, DEAD_REASON, GROUP, HeaderValue, History, NOT_BEFORE},
    limits::{self, RESERVED_HEADER_PREFIX},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use sha2::{Digest as _, Sha256};

/// Delivery mode of messages that survive a restart of the server.
pub(crate) const PERSISTENT: u8 = 2;

const KEY: &str = "x-crawlway-key";
const COPY: &str = "x-crawlway-copy";
const DEAD_ID: &str = "x-crawlway-dead-id";
const DEAD_AT: &str = "x-crawlway-dead-at";

/// Headers that the server adds when a message expires from a delay queue.
const SERVER_HEADERS: [&str; 2] = ["x-death", "x-delivery-count"];
const SERVER_HEADER_PREFIXES: [&str; 2] = ["x-first-death-", "x-last-death-"];

/// AMQP short string. Callers check lengths before; a longer text is truncated rather than a panic.
pub(crate) fn short(text: &str) -> ShortString {
    ShortString::try_new(crawlway_broker::limits::truncated(text, 255)).unwrap_or_default()
}

/// A message to publish: target, properties and body.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

impl Publication {
    /// Through the default exchange.
    pub(crate) fn to_queue(queue: String, properties: BasicProperties, body: Bytes) -> Self {
        Self { exchange: String::new(), routing_key: queue, properties, body }
    }
}

/// Identity of one copy of a message. Every republish makes another copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CopyId {
    pub(crate) message: MessageId,
    /// Empty for the original.
    pub(crate) copy: String,
}

impl CopyId {
    /// Hexadecimal digest of fixed length, for queue names.
    pub(crate) fn digest(&self) -> String {
        hex_half(Sha256::new().chain_update(&self.copy).chain_update([0]).chain_update(self.message.as_str()))
    }
}

/// A decoded message, with the properties that a copy keeps.
#[derive(Debug, Clone)]
pub(crate) struct DecodedMessage {
    pub(crate) message: Message,
    pub(crate) history: History,
    copy: String,
    properties: BasicProperties,
}

/// Properties of a newly published message.
pub(crate) fn encode_new(outgoing: &Outgoing, content_type: Option<&str>, now: Timestamp) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in &outgoing.headers {
        headers.insert(short(name), text(value));
    }
    if let Some(key) = &outgoing.key {
        headers.insert(short(KEY), text(key));
    }
    if let Some(group) = &outgoing.group {
        headers.insert(short(GROUP), text(group));
    }
    if let Some(time) = outgoing.not_before.filter(|time| *time > now) {
        headers.insert(short(NOT_BEFORE), number(time.as_millis()));
    }
    let mut properties = BasicProperties::default()
        .with_message_id(short(outgoing.id.as_str()))
        .with_timestamp(now.as_millis() / 1000)
        .with_delivery_mode(PERSISTENT);
    if let Some(content_type) = content_type {
        properties = properties.with_content_type(short(content_type));
    }
    if headers.inner().is_empty() { properties } else { properties.with_headers(headers) }
}

impl DecodedMessage {
    pub(crate) fn decode(properties: BasicProperties, body: Vec<u8>) -> Self {
        let body = Bytes::from(body);
        let empty = FieldTable::default();
        let table = properties.headers().as_ref().unwrap_or(&empty);
        let history = History::from_headers(|name| number_in(table, name), |name| text_in(table, name));
        // A message of another program may have no time: now, to the second, as a copy states it.
        let seconds = properties.timestamp().unwrap_or_else(|| Timestamp::now().as_millis() / 1000);
        let published_at = Timestamp::from_millis(seconds.saturating_mul(1000));
        let message = Message {
            id: id_of(&properties, &body),
            key: text_in(table, KEY),
            group: text_in(table, GROUP),
            headers: application_headers(table),
            body,
            published_at,
            defects: defects(table),
        };
        let copy = text_in(table, COPY).unwrap_or_default();
        Self { message, history, copy, properties }
    }

    pub(crate) fn copy_id(&self) -> CopyId {
        CopyId { message: self.message.id.clone(), copy: self.copy.clone() }
    }

    /// Publish time, if the message states one.
    pub(crate) fn stated_publish_time(&self) -> Option<Timestamp> {
        self.properties.timestamp().map(|_| self.message.published_at)
    }

    /// Properties of a copy with this history.
    pub(crate) fn encode_copy(&self, history: &History) -> BasicProperties {
        let original = self.properties.headers().iter().flatten();
        let mut headers = trim_headers(original.filter(|(name, _)| is_kept(name.as_str())).collect());
        headers.insert(short(COPY), text(MessageId::random().as_str()));
        for (name, value) in history.headers() {
            headers.insert(short(name), header_value(value));
        }
        // Without the expiration, which would drop the copy, and the user id, which has to be the publisher's.
        let mut properties = BasicProperties::default()
            .with_message_id(short(self.message.id.as_str()))
            .with_timestamp(self.message.published_at.as_millis() / 1000)
            .with_delivery_mode(PERSISTENT)
            .with_headers(headers);
        macro_rules! keep {
            ($($get:ident $set:ident),*) => {
                $(if let Some(value) = self.properties.$get().clone() {
                    properties = properties.$set(value);
                })*
            };
        }
        keep!(
            content_type with_content_type,
            content_encoding with_content_encoding,
            priority with_priority,
            correlation_id with_correlation_id,
            reply_to with_reply_to,
            kind with_type,
            app_id with_app_id
        );
        properties
    }

    /// Properties of the dead letter of this message.
    pub(crate) fn encode_dead_letter(
        &self,
        history: &History,
        death: &Death,
        at: Timestamp,
    ) -> BasicProperties {
        let properties = self.encode_copy(&History { not_before: None, ..history.clone() });
        let mut headers = properties.headers().clone().unwrap_or_default();
        headers.insert(short(ATTEMPT), number(history.attempt.into()));
        headers.insert(short(DEAD_ID), text(MessageId::random().as_str()));
        headers.insert(short(DEAD_CAUSE), text(death.cause.as_str()));
        headers.insert(short(DEAD_REASON), text(limits::truncated(&death.reason, limits::MAX_ERROR_BYTES)));
        headers.insert(short(DEAD_AT), number(at.as_millis()));
        properties.with_headers(headers)
    }

    /// Decodes a message of the dead-letter queue. One of another program gets defaults.
    pub(crate) fn decode_dead_letter(&self, queue: &QueueName) -> DeadLetter {
        let empty = FieldTable::default();
        let table = self.properties.headers().as_ref().unwrap_or(&empty);
        let id = text_in(table, DEAD_ID).unwrap_or_else(|| self.message.id.to_string());
        let reason = text_in(table, DEAD_REASON).unwrap_or_else(|| "put there by another program".into());
        DeadLetter {
            id: DeadLetterId(id),
            queue: queue.clone(),
            message: self.message.clone(),
            cause: cause_of(text_in(table, DEAD_CAUSE).as_deref(), &reason),
            reason,
            attempts: self.history.attempt,
            first_error: self.history.first_error.clone(),
            last_error: self.history.last_error.clone(),
            dead_at: number_in(table, DEAD_AT).map_or(self.message.published_at, Timestamp::from_millis),
            replays: self.history.replays,
        }
    }
}

/// Cause of a dead letter from its header, or from its reason if an older release wrote it.
fn cause_of(named: Option<&str>, reason: &str) -> DeadLetterCause {
    named.and_then(DeadLetterCause::from_name).unwrap_or(if reason.starts_with("gave up after ") {
        DeadLetterCause::AttemptsUsedUp
    } else {
        DeadLetterCause::Refused
    })
}

/// Message id; for a message without one, a hash of time and body, which is the same in every delivery.
fn id_of(properties: &BasicProperties, body: &[u8]) -> MessageId {
    if let Some(id) = properties.message_id()
        && !id.as_str().is_empty()
    {
        return MessageId::from(id.as_str());
    }
    let hash = Sha256::new().chain_update(properties.timestamp().unwrap_or_default().to_be_bytes());
    MessageId::from(format!("body-{}", hex_half(hash.chain_update(body))).as_str())
}

/// First half of a hash, in hexadecimal.
fn hex_half(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn application_headers(table: &FieldTable) -> Headers {
    table
        .into_iter()
        .filter(|(name, _)| is_kept(name.as_str()) && !is_reserved(name.as_str()))
        .map(|(name, value)| (name.to_string(), as_text(value)))
        .collect()
}

/// Headers of another program that are no text.
fn defects(table: &FieldTable) -> Vec<Defect> {
    let kept = table.into_iter().filter(|(name, _)| is_kept(name.as_str()) && !is_reserved(name.as_str()));
    let defect = |(name, value): (&ShortString, &AMQPValue)| match value {
        AMQPValue::Void => Some(Defect::NullHeader(name.to_string())),
        AMQPValue::LongString(text) if std::str::from_utf8(text.as_bytes()).is_err() => {
            Some(Defect::BinaryHeader(name.to_string()))
        }
        AMQPValue::ByteArray(_) => Some(Defect::BinaryHeader(name.to_string())),
        _ => None,
    };
    kept.filter_map(defect).collect()
}

fn is_reserved(name: &str) -> bool {
    name.get(..RESERVED_HEADER_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_HEADER_PREFIX))
}

/// Whether a copy keeps the header: it belongs to the message rather than to its history.
fn is_kept(name: &str) -> bool {
    let bookkeeping = is_reserved(name) && ![KEY, GROUP, LEFT_OUT].contains(&name);
    !bookkeeping
        && !SERVER_HEADERS.contains(&name)
        && !SERVER_HEADER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().to_vec().into())
}

fn number(value: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(value).unwrap_or(i64::MAX))
}

fn header_value(value: HeaderValue) -> AMQPValue {
    match value {
        HeaderValue::Number(value) => number(value),
        HeaderValue::Text(value) => text(&value),
    }
}

fn text_in(table: &FieldTable, name: &str) -> Option<String> {
    table.inner().get(name).map(as_text)
}

fn number_in(table: &FieldTable, name: &str) -> Option<u64> {
    match table.inner().get(name)? {
        AMQPValue::LongLongInt(value) => u64::try_from(*value).ok(),
        other => as_text(other).parse().ok(),
    }
}

/// Header value as text: strings and numbers as they are, anything else as JSON.
fn as_text(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Float(value) => value.to_string(),
        AMQPValue::Double(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        AMQPValue::Void => String::new(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_broker::Failure;
    use std::time::Duration;

    fn outgoing() -> Outgoing {
        let queue = QueueName::new("q").unwrap();
        Outgoing::to_queue(&queue, "body").id("item").key("").group("g").header("Naïve", "日本")
    }

    #[test]
    fn headers_that_are_no_text_are_reported_and_kept_in_copies() {
        let mut headers = FieldTable::default();
        headers.insert(short("text"), text("ok"));
        headers.insert(short("number"), AMQPValue::LongInt(7));
        headers.insert(short("null"), AMQPValue::Void);
        headers.insert(short("binary"), AMQPValue::LongString(vec![0xFF, 0xFE].into()));
        headers.insert(short("x-death"), AMQPValue::Void);
        let decoded = DecodedMessage::decode(BasicProperties::default().with_headers(headers), Vec::new());
        let expected = [Defect::BinaryHeader("binary".into()), Defect::NullHeader("null".into())];
        assert_eq!(decoded.message.defects, expected);
        let copy = DecodedMessage::decode(decoded.encode_copy(&decoded.history), Vec::new());
        assert_eq!(copy.message.defects, expected);
    }

    #[test]
    fn a_new_message_has_no_headers() {
        let queue = QueueName::new("q").unwrap();
        let properties = encode_new(&Outgoing::to_queue(&queue, "x"), None, Timestamp::now());
        assert_eq!(properties.headers(), &None);
        assert_eq!(properties.delivery_mode(), &Some(PERSISTENT));
    }

    #[test]
    fn copies_and_dead_letters_keep_message_and_history() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let decoded =
            DecodedMessage::decode(encode_new(&outgoing(), Some("text/plain"), now), b"body".to_vec());
        assert_eq!(decoded.history, History { attempt: 1, ..History::default() });
        let mut history = decoded.history.clone();
        history.record_attempt(Failure { error: "it rained".into(), at: now });
        history.record_attempt(Failure { error: "it snowed".into(), at: now + Duration::from_secs(1) });
        history.not_before = Some(now + Duration::from_secs(9));
        (history.losses, history.solo_crashes) = (6, 2);
        let again = DecodedMessage::decode(decoded.encode_copy(&history), b"body".to_vec());
        assert_eq!((&again.message, &again.history), (&decoded.message, &history));
        assert_eq!(again.history.attempt, 3);
        let third = DecodedMessage::decode(again.encode_copy(&history), b"body".to_vec());
        let copies = [&decoded, &again, &third].map(|copy| copy.copy_id().digest());
        assert!(copies[0] != copies[1] && copies[1] != copies[2], "each copy is another one: {copies:?}");
        assert_eq!(again.properties.content_type(), &Some(short("text/plain")));

        let queue = QueueName::new("q").unwrap();
        let death = Death { cause: DeadLetterCause::WorkerLost, reason: "gave up".into() };
        let letter =
            DecodedMessage::decode(again.encode_dead_letter(&again.history, &death, now), b"body".to_vec())
                .decode_dead_letter(&queue);
        assert_eq!((letter.message, letter.attempts, letter.reason), (decoded.message, 3, "gave up".into()));
        assert_eq!(letter.first_error.unwrap().error, "it rained");
        assert_eq!((letter.dead_at, letter.cause), (now, DeadLetterCause::WorkerLost));
    }

    #[test]
    fn cause_falls_back_to_the_reason() {
        assert_eq!(cause_of(None, "gave up after 3 attempts: it rained"), DeadLetterCause::AttemptsUsedUp);
        assert_eq!(cause_of(None, "not a page"), DeadLetterCause::Refused);
        assert_eq!(cause_of(Some("worker_lost"), "gave up after 3 attempts"), DeadLetterCause::WorkerLost);
        assert_eq!(cause_of(Some("something newer"), "not a page"), DeadLetterCause::Refused);
    }

    #[test]
    fn copies_keep_headers_and_properties_of_other_programs() {
        let mut headers = FieldTable::default();
        headers.insert(short("count"), AMQPValue::LongInt(7));
        headers.insert(short("x-death"), AMQPValue::FieldArray(Vec::new().into()));
        headers.insert(short("x-first-death-queue"), text("delay"));
        let properties = BasicProperties::default()
            .with_headers(headers)
            .with_content_type(short("application/json"))
            .with_expiration(short("60000"))
            .with_user_id(short("other"));
        let decoded = DecodedMessage::decode(properties.clone(), b"{}".to_vec());
        assert_eq!(decoded.message.headers, Headers::from([("count".into(), "7".into())]));
        let id = decoded.message.id.clone();
        assert_eq!(DecodedMessage::decode(properties, b"{}".to_vec()).message.id, id, "the same each time");
        let again = decoded.encode_copy(&decoded.history);
        assert_eq!(again.content_type(), &Some(short("application/json")));
        assert_eq!((again.expiration(), again.user_id()), (&None, &None));
        assert_eq!(again.headers().as_ref().unwrap().inner().get("count"), Some(&AMQPValue::LongInt(7)));
        let names: Vec<_> =
            again.headers().as_ref().unwrap().inner().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["count", COPY]);
    }
}
