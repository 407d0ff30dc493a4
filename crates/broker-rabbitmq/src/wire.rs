//! Messages on the wire: how ours become AMQP's and back, with our bookkeeping in headers.
//!
//! A message as it is first published carries nothing of ours but its key and group, if it has them. What is written
//! again (a retry, a deferral, a dead letter) keeps every property and header it came with, a stranger's included.

use crate::fitting::{LEFT_OUT, fitting};
use bytes::Bytes;
use crawlway_broker::{
    Cause, DeadId, DeadLetter, Failure, Headers, Message, MessageId, Outgoing, QueueName, Timestamp,
    limits::{self, RESERVED_HEADER_PREFIX},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use sha2::{Digest as _, Sha256};

const PERSISTENT: u8 = 2;

const KEY: &str = "x-crawlway-key";
const GROUP: &str = "x-crawlway-group";
const ATTEMPT: &str = "x-crawlway-attempt";
const LOSSES: &str = "x-crawlway-losses";
const SOLO_CRASHES: &str = "x-crawlway-solo-crashes";
const COPY: &str = "x-crawlway-copy";
const REPLAYS: &str = "x-crawlway-replays";
const NOT_BEFORE: &str = "x-crawlway-not-before";
const FIRST_ERROR: (&str, &str) = ("x-crawlway-first-error", "x-crawlway-first-error-at");
const LAST_ERROR: (&str, &str) = ("x-crawlway-last-error", "x-crawlway-last-error-at");
const DEAD_ID: &str = "x-crawlway-dead-id";
const DEAD_CAUSE: &str = "x-crawlway-dead-cause";
const DEAD_REASON: &str = "x-crawlway-dead-reason";
const DEAD_AT: &str = "x-crawlway-dead-at";

/// What the server adds when a tier hands a message on.
const SERVERS_OWN: [&str; 2] = ["x-death", "x-delivery-count"];
const SERVERS_OWN_PREFIXES: [&str; 2] = ["x-first-death-", "x-last-death-"];

/// A name for the wire. What we send is checked before and fits; what does not fit is cut rather than a reason to panic.
pub(crate) fn short(text: &str) -> ShortString {
    ShortString::try_new(crawlway_broker::limits::truncated(text, 255)).unwrap_or_default()
}

/// A message on its way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Bytes,
}

impl Parcel {
    /// Straight into a queue.
    pub(crate) fn to_queue(queue: String, properties: BasicProperties, body: Bytes) -> Self {
        Self { exchange: String::new(), routing_key: queue, properties, body }
    }
}

/// What happened to a message before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Which attempt the next delivery is.
    pub(crate) attempt: u32,
    pub(crate) replays: u32,
    /// How many workers were lost while they had it.
    pub(crate) losses: u32,
    /// And how many of them ran nothing else.
    pub(crate) solo_crashes: u32,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) first_error: Option<Failure>,
    pub(crate) last_error: Option<Failure>,
}

impl History {
    /// Notes a failed attempt, whose successor is the next one.
    pub(crate) fn failed(&mut self, failure: Failure) {
        self.note(failure);
        self.attempt = self.attempt.saturating_add(1);
    }

    /// Notes what went wrong, and counts nothing.
    pub(crate) fn note(&mut self, failure: Failure) {
        self.first_error.get_or_insert_with(|| failure.clone());
        self.last_error = Some(failure);
    }
}

/// How a message ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) cause: Cause,
    pub(crate) reason: String,
}

/// Names one copy of a message: each time it is written again, that is another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CopyId {
    pub(crate) message: MessageId,
    /// Empty for the message as it was first published.
    pub(crate) copy: String,
}

impl CopyId {
    /// The same as letters and digits, always as many.
    pub(crate) fn digest(&self) -> String {
        digits(Sha256::new().chain_update(&self.copy).chain_update([0]).chain_update(self.message.as_str()))
    }
}

/// A message as it came, with what is needed to write it again.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    pub(crate) message: Message,
    pub(crate) history: History,
    copy: String,
    properties: BasicProperties,
}

/// The properties of a message that is published for the first time.
pub(crate) fn first(outgoing: &Outgoing, content_type: Option<&str>, now: Timestamp) -> BasicProperties {
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

impl Carried {
    /// Reads what came.
    pub(crate) fn read(properties: BasicProperties, body: Vec<u8>) -> Self {
        let body = Bytes::from(body);
        let empty = FieldTable::default();
        let table = properties.headers().as_ref().unwrap_or(&empty);
        let count = |name| number_in(table, name).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let history = History {
            attempt: count(ATTEMPT).unwrap_or(1).max(1),
            replays: count(REPLAYS).unwrap_or(0),
            losses: count(LOSSES).unwrap_or(0),
            solo_crashes: count(SOLO_CRASHES).unwrap_or(0),
            not_before: number_in(table, NOT_BEFORE).map(Timestamp::from_millis),
            first_error: failure_in(table, FIRST_ERROR),
            last_error: failure_in(table, LAST_ERROR),
        };
        // A stranger's message without a time was published when it was first seen, to the second, as it is written again.
        let seconds = properties.timestamp().unwrap_or_else(|| Timestamp::now().as_millis() / 1000);
        let published_at = Timestamp::from_millis(seconds.saturating_mul(1000));
        let message = Message {
            id: id_of(&properties, &body),
            key: text_in(table, KEY),
            group: text_in(table, GROUP),
            headers: own_headers(table),
            body,
            published_at,
        };
        let copy = text_in(table, COPY).unwrap_or_default();
        Self { message, history, copy, properties }
    }

    /// Which copy of its message this is.
    pub(crate) fn copy_id(&self) -> CopyId {
        CopyId { message: self.message.id.clone(), copy: self.copy.clone() }
    }

    /// When it was published, if it came with a time of its own.
    pub(crate) fn says_published_at(&self) -> Option<Timestamp> {
        self.properties.timestamp().map(|_| self.message.published_at)
    }

    /// The properties of this message when it is written again with this history.
    pub(crate) fn again(&self, history: &History) -> BasicProperties {
        let came = self.properties.headers().iter().flatten();
        let mut headers = fitting(came.filter(|(name, _)| is_kept(name.as_str())).collect());
        headers.insert(short(COPY), text(MessageId::random().as_str()));
        if history.attempt > 1 {
            headers.insert(short(ATTEMPT), number(history.attempt.into()));
        }
        let counts =
            [(REPLAYS, history.replays), (LOSSES, history.losses), (SOLO_CRASHES, history.solo_crashes)];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            headers.insert(short(name), number(count.into()));
        }
        if let Some(time) = history.not_before {
            headers.insert(short(NOT_BEFORE), number(time.as_millis()));
        }
        for ((name, at), failure) in [(FIRST_ERROR, &history.first_error), (LAST_ERROR, &history.last_error)]
        {
            if let Some(failure) = failure {
                headers.insert(short(name), text(&failure.error));
                headers.insert(short(at), number(failure.at.as_millis()));
            }
        }
        // Neither the expiration, which would lose it, nor the user, who is another now.
        let was = &self.properties;
        let mut properties = BasicProperties::default()
            .with_message_id(short(self.message.id.as_str()))
            .with_timestamp(self.message.published_at.as_millis() / 1000)
            .with_delivery_mode(PERSISTENT)
            .with_headers(headers);
        macro_rules! keep {
            ($($get:ident $set:ident),*) => {
                $(if let Some(value) = was.$get().clone() {
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

    /// The properties of this message as a dead letter that ended now like this.
    pub(crate) fn dead(&self, history: &History, end: &End, at: Timestamp) -> BasicProperties {
        let properties = self.again(&History { not_before: None, ..history.clone() });
        let mut headers = properties.headers().clone().unwrap_or_default();
        headers.insert(short(ATTEMPT), number(history.attempt.into()));
        headers.insert(short(DEAD_ID), text(MessageId::random().as_str()));
        headers.insert(short(DEAD_CAUSE), text(cause_name(end.cause)));
        headers.insert(short(DEAD_REASON), text(limits::truncated(&end.reason, limits::MAX_ERROR)));
        headers.insert(short(DEAD_AT), number(at.as_millis()));
        properties.with_headers(headers)
    }

    /// Reads this message as a dead letter of a queue. One that a stranger put there has what can be known of it.
    pub(crate) fn letter(&self, queue: &QueueName) -> DeadLetter {
        let empty = FieldTable::default();
        let table = self.properties.headers().as_ref().unwrap_or(&empty);
        let id = text_in(table, DEAD_ID).unwrap_or_else(|| self.message.id.to_string());
        let reason = text_in(table, DEAD_REASON).unwrap_or_else(|| "put there by another program".into());
        DeadLetter {
            id: DeadId(id),
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

fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::AttemptsUsedUp => "attempts_used_up",
        Cause::WorkerLost => "worker_lost",
        Cause::Refused => "refused",
    }
}

/// What ended a letter, by its header. An older one has none, and its reason tells.
fn cause_of(named: Option<&str>, reason: &str) -> Cause {
    let causes = [Cause::AttemptsUsedUp, Cause::WorkerLost, Cause::Refused];
    let named = named.and_then(|name| causes.into_iter().find(|cause| cause_name(*cause) == name));
    named.unwrap_or(if reason.starts_with("gave up after ") { Cause::AttemptsUsedUp } else { Cause::Refused })
}

/// The id, or one made from what it says if a stranger gave it none: the same each time it is delivered.
fn id_of(properties: &BasicProperties, body: &[u8]) -> MessageId {
    if let Some(id) = properties.message_id()
        && !id.as_str().is_empty()
    {
        return MessageId::from(id.as_str());
    }
    let hash = Sha256::new().chain_update(properties.timestamp().unwrap_or_default().to_be_bytes());
    MessageId::from(format!("body-{}", digits(hash.chain_update(body))).as_str())
}

/// The first half of a hash.
fn digits(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn own_headers(table: &FieldTable) -> Headers {
    table
        .into_iter()
        .filter(|(name, _)| is_kept(name.as_str()) && !is_ours(name.as_str()))
        .map(|(name, value)| (name.to_string(), as_text(value)))
        .collect()
}

fn is_ours(name: &str) -> bool {
    name.get(..RESERVED_HEADER_PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_HEADER_PREFIX))
}

/// Whether a header belongs to the message rather than to its way so far.
fn is_kept(name: &str) -> bool {
    let of_its_way = is_ours(name) && ![KEY, GROUP, LEFT_OUT].contains(&name);
    !of_its_way
        && !SERVERS_OWN.contains(&name)
        && !SERVERS_OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().to_vec().into())
}

fn number(value: u64) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(value).unwrap_or(i64::MAX))
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

fn failure_in(table: &FieldTable, (name, at): (&str, &str)) -> Option<Failure> {
    let error = text_in(table, name)?;
    Some(Failure { error, at: Timestamp::from_millis(number_in(table, at).unwrap_or(0)) })
}

/// A header's value as text; what is not text is written as a person would, or as JSON.
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
    use std::time::Duration;

    fn outgoing() -> Outgoing {
        let queue = QueueName::new("q").unwrap();
        Outgoing::to_queue(&queue, "body").id("item").key("").group("g").header("Naïve", "日本")
    }

    #[test]
    fn a_plain_message_carries_nothing_of_ours() {
        let queue = QueueName::new("q").unwrap();
        let properties = first(&Outgoing::to_queue(&queue, "x"), None, Timestamp::now());
        assert_eq!(properties.headers(), &None);
        assert_eq!(properties.delivery_mode(), &Some(PERSISTENT));
    }

    #[test]
    fn what_is_written_again_keeps_message_and_history() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let carried = Carried::read(first(&outgoing(), Some("text/plain"), now), b"body".to_vec());
        assert_eq!(carried.history, History { attempt: 1, ..History::default() });
        let mut history = carried.history.clone();
        history.failed(Failure { error: "it rained".into(), at: now });
        history.failed(Failure { error: "it snowed".into(), at: now + Duration::from_secs(1) });
        history.not_before = Some(now + Duration::from_secs(9));
        (history.losses, history.solo_crashes) = (6, 2);
        let again = Carried::read(carried.again(&history), b"body".to_vec());
        assert_eq!((&again.message, &again.history), (&carried.message, &history));
        assert_eq!(again.history.attempt, 3);
        let third = Carried::read(again.again(&history), b"body".to_vec());
        let copies = [&carried, &again, &third].map(|copy| copy.copy_id().digest());
        assert!(copies[0] != copies[1] && copies[1] != copies[2], "each copy is another one: {copies:?}");
        assert_eq!(again.properties.content_type(), &Some(short("text/plain")));

        let queue = QueueName::new("q").unwrap();
        let end = End { cause: Cause::WorkerLost, reason: "gave up".into() };
        let letter = Carried::read(again.dead(&again.history, &end, now), b"body".to_vec()).letter(&queue);
        assert_eq!((letter.message, letter.attempts, letter.reason), (carried.message, 3, "gave up".into()));
        assert_eq!(letter.first_error.unwrap().error, "it rained");
        assert_eq!((letter.dead_at, letter.cause), (now, Cause::WorkerLost));
    }

    #[test]
    fn a_letter_without_a_cause_tells_it_by_its_reason() {
        assert_eq!(cause_of(None, "gave up after 3 attempts: it rained"), Cause::AttemptsUsedUp);
        assert_eq!(cause_of(None, "not a page"), Cause::Refused);
        assert_eq!(cause_of(Some("worker_lost"), "gave up after 3 attempts"), Cause::WorkerLost);
        assert_eq!(cause_of(Some("something newer"), "not a page"), Cause::Refused);
    }

    #[test]
    fn a_strangers_message_is_read_and_kept_as_it_is() {
        let mut headers = FieldTable::default();
        headers.insert(short("count"), AMQPValue::LongInt(7));
        headers.insert(short("x-death"), AMQPValue::FieldArray(Vec::new().into()));
        headers.insert(short("x-first-death-queue"), text("tier"));
        let properties = BasicProperties::default()
            .with_headers(headers)
            .with_content_type(short("application/json"))
            .with_expiration(short("60000"))
            .with_user_id(short("somebody"));
        let carried = Carried::read(properties.clone(), b"{}".to_vec());
        assert_eq!(carried.message.headers, Headers::from([("count".into(), "7".into())]));
        let id = carried.message.id.clone();
        assert_eq!(Carried::read(properties, b"{}".to_vec()).message.id, id, "the same each time");
        let again = carried.again(&carried.history);
        assert_eq!(again.content_type(), &Some(short("application/json")));
        assert_eq!((again.expiration(), again.user_id()), (&None, &None));
        assert_eq!(again.headers().as_ref().unwrap().inner().get("count"), Some(&AMQPValue::LongInt(7)));
        let names: Vec<_> =
            again.headers().as_ref().unwrap().inner().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["count", COPY]);
    }
}
