//! Wire format: encoding and decoding of records, with the broker's bookkeeping in headers.
//!
//! A newly published message has its id and group as headers of the broker; its key is the record's. A copy (retry, deferral, dead letter)
//! keeps the key and every header of the original, including those of other programs, repeated and binary ones.

use crate::names::Source;
use bytes::Bytes;
use crawlway_broker::{
    Defect, Failure, Headers as TextHeaders, Message, MessageId, Outgoing, Timestamp,
    limits::RESERVED_HEADER_PREFIX,
};
use rdkafka::message::{BorrowedMessage, Header, Headers as _, Message as _, OwnedHeaders};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ID: &str = "x-crawlway-id";
const GROUP: &str = "x-crawlway-group";
const PUBLISHED: &str = "x-crawlway-published";
const ATTEMPT: &str = "x-crawlway-attempt";
const LOSSES: &str = "x-crawlway-losses";
const SOLO_CRASHES: &str = "x-crawlway-solo-crashes";
const REPLAYS: &str = "x-crawlway-replays";
const REPLAY_EPOCH: &str = "x-crawlway-replay-epoch";
const NOT_BEFORE: &str = "x-crawlway-not-before";
const FIRST_ERROR: (&str, &str) = ("x-crawlway-first-error", "x-crawlway-first-error-at");
const LAST_ERROR: (&str, &str) = ("x-crawlway-last-error", "x-crawlway-last-error-at");
const DEAD_CAUSE: &str = "x-crawlway-dead-cause";
const DEAD_REASON: &str = "x-crawlway-dead-reason";

/// Bytes that the protocol adds to each header and to the record, at most.
const HEADER_FRAMING: usize = 10;
const RECORD_FRAMING: usize = 72;

/// Delivery history of a message, in headers of its record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Number of failed attempts.
    pub(crate) attempts: u32,
    pub(crate) replays: u32,
    /// Workers that were lost while they had it.
    pub(crate) losses: u32,
    /// Lost workers that ran nothing else.
    pub(crate) solo_crashes: u32,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) first_error: Option<Failure>,
    pub(crate) last_error: Option<Failure>,
}

impl History {
    /// Counts a failed attempt.
    pub(crate) fn record_attempt(&mut self, failure: Failure) {
        self.attempts = self.attempts.saturating_add(1);
        self.first_error.get_or_insert_with(|| failure.clone());
        self.last_error = Some(failure);
    }
}

/// A received record.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) source: Source,
    pub(crate) offset: i64,
    /// Time of the record in milliseconds.
    pub(crate) time: i64,
    pub(crate) message: Message,
    pub(crate) history: History,
    /// Key as received.
    key: Option<Vec<u8>>,
    /// Headers of the publisher as received. Those whose names are not UTF-8 are missing: the client cannot write them.
    headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A record to publish.
#[derive(Debug, Clone)]
pub(crate) struct Publication {
    pub(crate) topic: String,
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) body: Option<Bytes>,
}

impl Publication {
    /// Size of the record in bytes, or a little more.
    pub(crate) fn size(&self) -> u64 {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + HEADER_FRAMING);
        let key = self.key.as_ref().map_or(0, Vec::len);
        let body = self.body.as_ref().map_or(0, Bytes::len);
        (headers.sum::<usize>() + key + body + RECORD_FRAMING) as u64
    }

    /// Id of the message.
    pub(crate) fn id(&self) -> String {
        let id = self.headers.iter().find(|(name, _)| name == ID).and_then(|(_, value)| value.as_deref());
        String::from_utf8_lossy(id.unwrap_or_default()).into_owned()
    }

    pub(crate) fn owned_headers(&self) -> OwnedHeaders {
        let empty = OwnedHeaders::new_with_capacity(self.headers.len());
        self.headers
            .iter()
            .fold(empty, |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() }))
    }
}

/// Record of a new message.
pub(crate) fn encode_new(message: &Outgoing, topic: String) -> Publication {
    let mut headers: Vec<_> = message
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Some(value.clone().into_bytes())))
        .collect();
    let mut add = |name: &str, value: &str| headers.push((name.to_owned(), Some(value.as_bytes().to_vec())));
    add(ID, message.id.as_str());
    if let Some(group) = &message.group {
        add(GROUP, group);
    }
    if let Some(time) = message.not_before {
        add(NOT_BEFORE, &time.as_millis().to_string());
    }
    let key = message.key.clone().map(String::into_bytes);
    Publication { topic, partition: None, key, headers, body: Some(message.body.clone()) }
}

/// Dead letter as it is copied for other programs.
pub(crate) struct DeadCopy<'a> {
    pub(crate) cause: &'a str,
    pub(crate) reason: &'a str,
}

/// Copy of a message with another history.
pub(crate) fn encode_copy(
    record: &Record,
    history: &History,
    topic: String,
    dead: Option<DeadCopy<'_>>,
) -> Publication {
    let mut headers = record.headers.clone();
    bookkeeping(&record.message, history, &mut headers);
    if let Some(DeadCopy { cause, reason }) = dead {
        headers.push((DEAD_CAUSE.to_owned(), Some(cause.as_bytes().to_vec())));
        headers.push((DEAD_REASON.to_owned(), Some(reason.as_bytes().to_vec())));
    }
    let is_null = record.message.defects.contains(&Defect::NullBody);
    let body = (!is_null).then(|| record.message.body.clone());
    Publication { topic, partition: None, key: record.key.clone(), headers, body }
}

/// Record of a dead letter that is replayed: its attempts start over.
pub(crate) fn encode_replay(message: &Message, replays: u32, epoch: u64, topic: String) -> Publication {
    let mut headers: Vec<_> = message
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Some(value.clone().into_bytes())))
        .collect();
    bookkeeping(message, &History { replays, ..History::default() }, &mut headers);
    headers.push((REPLAY_EPOCH.to_owned(), Some(epoch.to_string().into_bytes())));
    let key = message.key.clone().map(String::into_bytes);
    Publication { topic, partition: None, key, headers, body: Some(message.body.clone()) }
}

fn bookkeeping(message: &Message, history: &History, headers: &mut Vec<(String, Option<Vec<u8>>)>) {
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), Some(value.into_bytes())));
    add(ID, message.id.to_string());
    add(PUBLISHED, message.published_at.as_millis().to_string());
    if let Some(group) = &message.group {
        add(GROUP, group.clone());
    }
    for (name, count) in [
        (ATTEMPT, history.attempts),
        (LOSSES, history.losses),
        (SOLO_CRASHES, history.solo_crashes),
        (REPLAYS, history.replays),
    ] {
        if count > 0 {
            add(name, count.to_string());
        }
    }
    if let Some(time) = history.not_before {
        add(NOT_BEFORE, time.as_millis().to_string());
    }
    for ((text, at), failure) in [(FIRST_ERROR, &history.first_error), (LAST_ERROR, &history.last_error)] {
        if let Some(failure) = failure {
            add(text, failure.error.clone());
            add(at, failure.at.as_millis().to_string());
        }
    }
}

/// Decodes a record. Parts that the contract cannot represent become defects.
pub(crate) fn decode(source: Source, record: &BorrowedMessage<'_>) -> Record {
    let mut defects = Vec::new();
    let (mut text, mut raw, mut own) = (TextHeaders::new(), Vec::new(), TextHeaders::new());
    let headers = record.headers();
    for index in 0..headers.map_or(0, |headers| headers.count()) {
        // The client panics over a name that is not UTF-8.
        let header = catch_unwind(AssertUnwindSafe(|| headers.map(|headers| headers.get(index))));
        let Ok(Some(Header { key: name, value })) = header else {
            defects.push(Defect::BinaryHeader("?".to_owned()));
            continue;
        };
        let lossy = value.map(|value| String::from_utf8_lossy(value).into_owned());
        if name.to_ascii_lowercase().starts_with(RESERVED_HEADER_PREFIX) {
            own.insert(name.to_owned(), lossy.unwrap_or_default());
            continue;
        }
        match (value, &lossy) {
            (None, _) => defects.push(Defect::NullHeader(name.to_owned())),
            (Some(bytes), Some(text)) if bytes != text.as_bytes() => {
                defects.push(Defect::BinaryHeader(name.to_owned()));
            }
            _ => {}
        }
        raw.push((name.to_owned(), value.map(<[u8]>::to_vec)));
        if text.insert(name.to_owned(), lossy.unwrap_or_default()).is_some() {
            defects.push(Defect::DuplicateHeader(name.to_owned()));
        }
    }
    let key = record.key().map(<[u8]>::to_vec);
    match &key {
        None => defects.push(Defect::NullKey),
        Some(key) if std::str::from_utf8(key).is_err() => defects.push(Defect::BinaryKey),
        Some(_) => {}
    }
    if record.payload().is_none() {
        defects.push(Defect::NullBody);
    }
    defects.sort();
    defects.dedup();
    let (offset, time) = (record.offset(), record.timestamp().to_millis().unwrap_or(0));
    let millis = |name: &str| own.get(name)?.parse().ok().map(Timestamp::from_millis);
    let number = |name: &str| own.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let failure = |(text, at): (&str, &str)| Some(Failure { error: own.get(text)?.clone(), at: millis(at)? });
    // Without an id, the place of the record is one.
    let id = match own.get(ID) {
        Some(id) => MessageId::from(id.as_str()),
        None => MessageId::from(format!("{}-{}-{offset}", record.topic(), source.partition).as_str()),
    };
    let record_time = Timestamp::from_millis(u64::try_from(time).unwrap_or(0));
    let message = Message {
        id,
        key: key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
        group: own.get(GROUP).cloned(),
        headers: text,
        body: Bytes::copy_from_slice(record.payload().unwrap_or_default()),
        published_at: millis(PUBLISHED).unwrap_or(record_time),
        defects,
    };
    let history = History {
        attempts: number(ATTEMPT),
        replays: number(REPLAYS),
        losses: number(LOSSES),
        solo_crashes: number(SOLO_CRASHES),
        not_before: millis(NOT_BEFORE),
        first_error: failure(FIRST_ERROR),
        last_error: failure(LAST_ERROR),
    };
    Record { source, offset, time, message, history, key, headers: raw }
}

impl Record {
    /// Memory that it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        let headers =
            self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
        self.message.body.len() + 2 * headers.sum::<usize>() + 500
    }
}
