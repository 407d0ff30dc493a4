//! Wire format: encoding and decoding of records, with the broker's bookkeeping in headers.
//!
//! A newly published message has its id and group as headers of the broker, but for an id that is also the key; its key is
//! the record's. A copy (retry, deferral, dead letter)
//! keeps the key and every header of the original, including those of other programs, repeated and binary ones.

use crate::names::{Names, Source};
use bytes::Bytes;
use crawlway_broker::{
    Defect, Headers as TextHeaders, Message, MessageId, Outgoing, Timestamp,
    history::{ATTEMPT, DEAD_CAUSE, DEAD_REASON, GROUP, HeaderValue, History},
    limits::RESERVED_HEADER_PREFIX,
};
use rdkafka::message::{BorrowedMessage, Header, Headers as _, Message as _, OwnedHeaders};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ID: &str = "x-crawlway-id";
const PUBLISHED: &str = "x-crawlway-published";
/// Defects of a replayed message, in lines.
const DEFECTS: &str = "x-crawlway-defects";
const REPLAY_EPOCH: &str = "x-crawlway-replay-epoch";

/// Bytes that the protocol adds to each header and to the record, at most.
const HEADER_FRAMING: usize = 10;
const RECORD_FRAMING: usize = 72;

/// A received record.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) source: Source,
    pub(crate) offset: i64,
    /// Time of the record in milliseconds.
    pub(crate) time: i64,
    pub(crate) message: Message,
    pub(crate) history: History,
    /// Key in the ledger.
    pub(crate) ledger_key: String,
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
        String::from_utf8_lossy(id.or(self.key.as_deref()).unwrap_or_default()).into_owned()
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
    // Topics of a contract with other programs have no further header.
    if message.key.as_deref() != Some(message.id.as_str()) {
        add(ID, message.id.as_str());
    }
    if let Some(group) = &message.group {
        add(GROUP, group);
    }
    let history = History { not_before: message.not_before, ..History::default() };
    history_headers(&history, &mut headers);
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
        // The history leaves out the first.
        if history.attempt == 1 {
            headers.push((ATTEMPT.to_owned(), Some(b"1".to_vec())));
        }
        headers.push((DEAD_CAUSE.to_owned(), Some(cause.as_bytes().to_vec())));
        headers.push((DEAD_REASON.to_owned(), Some(reason.as_bytes().to_vec())));
    }
    let body = body_of(&record.message);
    Publication { topic, partition: None, key: record.key.clone(), headers, body }
}

/// Record of a dead letter that is replayed: its attempts start over.
/// In the first delay tier, as each copy that is due.
pub(crate) fn encode_replay(message: &Message, replays: u32, epoch: u64, topic: String) -> Publication {
    let mut headers: Vec<_> = message
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Some(value.clone().into_bytes())))
        .collect();
    bookkeeping(message, &History { replays, ..History::default() }, &mut headers);
    headers.push((REPLAY_EPOCH.to_owned(), Some(epoch.to_string().into_bytes())));
    if !message.defects.is_empty() {
        let codes: Vec<String> = message.defects.iter().map(Defect::to_code).collect();
        headers.push((DEFECTS.to_owned(), Some(codes.join("\n").into_bytes())));
    }
    let key = message.key.clone().map(String::into_bytes);
    Publication { topic, partition: Some(0), key, headers, body: body_of(message) }
}

/// Body of a copy; null if the message had none.
fn body_of(message: &Message) -> Option<Bytes> {
    (!message.defects.contains(&Defect::NullBody)).then(|| message.body.clone())
}

fn bookkeeping(message: &Message, history: &History, headers: &mut Vec<(String, Option<Vec<u8>>)>) {
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), Some(value.into_bytes())));
    add(ID, message.id.to_string());
    add(PUBLISHED, message.published_at.as_millis().to_string());
    if let Some(group) = &message.group {
        add(GROUP, group.clone());
    }
    history_headers(history, headers);
}

fn history_headers(history: &History, headers: &mut Vec<(String, Option<Vec<u8>>)>) {
    headers.extend(history.headers().into_iter().map(|(name, value)| {
        let value = match value {
            HeaderValue::Number(value) => value.to_string(),
            HeaderValue::Text(value) => value,
        };
        (name.to_owned(), Some(value.into_bytes()))
    }));
}

/// Id of a message whose key is a UUID and which has no id of its own. Other keys may not be unique: then its place is the id.
fn id_of_key(key: &str) -> Option<MessageId> {
    let is_uuid = key.len() == 36
        && key.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_uuid.then(|| MessageId::from(key))
}

/// Decodes a record. Parts that the contract cannot represent become defects.
pub(crate) fn decode(source: Source, record: &BorrowedMessage<'_>, names: &Names) -> Record {
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
    defects.extend(own.get(DEFECTS).iter().flat_map(|codes| codes.lines()).filter_map(Defect::from_code));
    defects.sort();
    defects.dedup();
    let (offset, time) = (record.offset(), record.timestamp().to_millis().unwrap_or(0));
    let number = |name: &str| own.get(name)?.parse::<u64>().ok();
    let key_text = key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned());
    // Without an id, the place of the record is one.
    let place = || MessageId::from(format!("{}-{}-{offset}", record.topic(), source.partition).as_str());
    let id = match own.get(ID) {
        Some(id) => MessageId::from(id.as_str()),
        None => key_text.as_deref().and_then(id_of_key).unwrap_or_else(place),
    };
    let record_time = Timestamp::from_millis(u64::try_from(time).unwrap_or(0));
    let message = Message {
        id,
        key: key_text,
        group: own.get(GROUP).cloned(),
        headers: text,
        body: Bytes::copy_from_slice(record.payload().unwrap_or_default()),
        published_at: number(PUBLISHED).map_or(record_time, Timestamp::from_millis),
        defects,
    };
    let history = History::from_headers(number, |name| own.get(name).cloned());
    let ledger_key = names.ledger_key(source, offset, time);
    Record { source, offset, time, message, history, ledger_key, key, headers: raw }
}

impl Record {
    /// Memory that it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        let headers =
            self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
        self.message.body.len() + 2 * headers.sum::<usize>() + 500
    }
}
