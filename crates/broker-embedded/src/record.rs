//! Log records: encoding of a message in a segment, with checksums.
//!
//! A record is a header of 24 bytes, a payload, and padding to a multiple of 8:
//!
//! ```text
//! 0   4   payload length
//! 4   4   number of the group commit that wrote it, within the segment
//! 8   4   offset of that commit's first record
//! 12  2   queue number
//! 14  1   kind
//! 15  1   zero
//! 16  4   checksum of the header, salted
//! 20  4   checksum of the payload, salted
//! ```
//!
//! The salt differs by segment. Stale records of a recycled file, or a body that imitates a record, therefore never
//! pass the checksum.

use bytes::Bytes;
use crawlway_broker::{DeadLetterCause, Failure, Headers, Message, MessageId, Timestamp};

pub(crate) const HEADER: usize = 24;
/// Alignment of records in bytes.
pub(crate) const ALIGN: usize = 8;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message as published.
    Message = 1,
    /// A copy of a message with its history: a retry, a replay or a relocation.
    Copy = 2,
    /// A dead letter.
    Dead = 3,
}

/// Position of a record in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

impl Position {
    /// Sort key for the order of first publishing.
    pub(crate) fn sequence(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }
}

/// The group commit that wrote a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) number: u32,
    /// Offset of its first record. Everything before was synced when this commit was written.
    pub(crate) start: u32,
}

/// A verified record header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) payload: u32,
    pub(crate) commit: Commit,
    pub(crate) queue: u16,
    pub(crate) kind: Kind,
    payload_checksum: u32,
}

fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

/// Size of a record with this payload, header and padding included.
pub(crate) fn record_size(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGN)
}

impl RecordHeader {
    /// Reads and verifies a header; `None` if the bytes are no header.
    pub(crate) fn read(bytes: &[u8], salt: u32) -> Option<RecordHeader> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = match bytes[14] {
            1 => Kind::Message,
            2 => Kind::Copy,
            3 => Kind::Dead,
            _ => return None,
        };
        if u32_at(16) != checksum(salt, &bytes[..16]) {
            return None;
        }
        Some(RecordHeader {
            payload: u32_at(0),
            commit: Commit { number: u32_at(4), start: u32_at(8) },
            queue: u16::from_le_bytes([bytes[12], bytes[13]]),
            kind,
            payload_checksum: u32_at(20),
        })
    }

    /// Whether the payload belongs to this header.
    pub(crate) fn matches(&self, payload: &[u8], salt: u32) -> bool {
        payload.len() == self.payload as usize && checksum(salt, payload) == self.payload_checksum
    }

    /// Fills in the header in front of a payload.
    pub(crate) fn write(
        record: &mut [u8],
        payload: usize,
        commit: Commit,
        queue: u16,
        kind: Kind,
        salt: u32,
    ) {
        let (header, rest) = record.split_at_mut(HEADER);
        header[..4].copy_from_slice(&(payload as u32).to_le_bytes());
        header[4..8].copy_from_slice(&commit.number.to_le_bytes());
        header[8..12].copy_from_slice(&commit.start.to_le_bytes());
        header[12..14].copy_from_slice(&queue.to_le_bytes());
        header[14] = kind as u8;
        header[15] = 0;
        let header_checksum = checksum(salt, &header[..16]);
        header[16..20].copy_from_slice(&header_checksum.to_le_bytes());
        header[20..].copy_from_slice(&checksum(salt, &rest[..payload]).to_le_bytes());
    }
}

/// Sequence of a copy that is ordered by its own position.
pub(crate) const OWN_POSITION: u64 = 0;

/// History of a message, carried by its copies and dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MessageHistory {
    /// Position of the original. The copy is valid once the original is marked as moved to it.
    pub(crate) origin: Position,
    /// Position of the message's first record, which keeps its order, or [`OWN_POSITION`].
    pub(crate) sequence: u64,
    /// Failed attempts.
    pub(crate) attempts: u32,
    pub(crate) replays: u32,
    pub(crate) losses: Losses,
    pub(crate) first_error: Option<Failure>,
    pub(crate) last_error: Option<Failure>,
}

/// Number of workers lost with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Losses {
    pub(crate) all: u16,
    /// Those that ran it solo.
    pub(crate) solo: u16,
}

/// Metadata of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeadLetterInfo {
    /// Number of the dead letter: unique and ascending over all queues.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) cause: DeadLetterCause,
    pub(crate) reason: String,
}

/// Decoded payload of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) published_at: Timestamp,
    /// Due time; zero if there is none.
    pub(crate) due: Timestamp,
    pub(crate) group: Option<String>,
    pub(crate) history: Option<MessageHistory>,
    pub(crate) dead_letter: Option<DeadLetterInfo>,
    pub(crate) id: MessageId,
    pub(crate) key: Option<String>,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

/// Payload prefix that recovery needs, decoded without the rest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PayloadSummary<'a> {
    pub(crate) published_at: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) group: Option<&'a str>,
    /// Origin, sequence and failed attempts.
    pub(crate) history: Option<(Position, u64, u32)>,
    pub(crate) losses: Losses,
    pub(crate) dead_letter: Option<u64>,
}

const HAS_GROUP: u8 = 1;
const HAS_HISTORY: u8 = 2;
const HAS_DEAD_LETTER: u8 = 4;
const HAS_KEY: u8 = 8;
const HAS_FIRST_ERROR: u8 = 16;
const HAS_LAST_ERROR: u8 = 32;
const HAS_LOSSES: u8 = 64;
/// Not set in dead letters of older versions; [`cause_from_reason`] derives it.
const HAS_CAUSE: u8 = 128;

/// Payload to encode, borrowed.
#[derive(Debug)]
pub(crate) struct PayloadParts<'a> {
    pub(crate) published_at: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) group: Option<&'a str>,
    pub(crate) history: Option<&'a MessageHistory>,
    pub(crate) dead_letter: Option<&'a DeadLetterInfo>,
    pub(crate) id: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) headers: &'a Headers,
    pub(crate) body: &'a [u8],
}

impl StoredMessage {
    /// The message as published.
    pub(crate) fn into_message(self) -> Message {
        let Self { id, key, group, headers, body, published_at, .. } = self;
        Message { id, key, group, headers, body, published_at, defects: Vec::new() }
    }

    pub(crate) fn parts(&self) -> PayloadParts<'_> {
        PayloadParts {
            published_at: self.published_at,
            due: self.due,
            group: self.group.as_deref(),
            history: self.history.as_ref(),
            dead_letter: self.dead_letter.as_ref(),
            id: self.id.as_str(),
            key: self.key.as_deref(),
            headers: &self.headers,
            body: &self.body,
        }
    }
}

impl PayloadParts<'_> {
    /// Appends a record (empty header, payload, padding) to the buffer; returns the payload's length.
    pub(crate) fn append_record(&self, out: &mut Vec<u8>) -> usize {
        debug_assert!(out.len().is_multiple_of(ALIGN), "records start aligned");
        let start = out.len();
        out.reserve(record_size(128 + self.body.len()));
        out.resize(start + HEADER, 0);
        self.append_payload(out);
        let payload = out.len() - start - HEADER;
        out.resize(start + record_size(payload), 0);
        payload
    }

    fn append_payload(&self, out: &mut Vec<u8>) {
        let history = self.history;
        let first_error = history.and_then(|history| history.first_error.as_ref());
        let last_error = history.and_then(|history| history.last_error.as_ref());
        let losses = history.map(|history| history.losses).filter(|losses| *losses != Losses::default());
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.group.is_some(), HAS_GROUP)
                | flag(history.is_some(), HAS_HISTORY)
                | flag(self.dead_letter.is_some(), HAS_DEAD_LETTER)
                | flag(self.key.is_some(), HAS_KEY)
                | flag(first_error.is_some(), HAS_FIRST_ERROR)
                | flag(last_error.is_some(), HAS_LAST_ERROR)
                | flag(losses.is_some(), HAS_LOSSES)
                | flag(self.dead_letter.is_some(), HAS_CAUSE),
        );
        put_u64(out, self.published_at.as_millis());
        put_u64(out, self.due.as_millis());
        if let Some(history) = history {
            put_u32(out, history.origin.segment);
            put_u32(out, history.origin.offset);
            put_u64(out, history.sequence);
            put_u32(out, history.attempts);
            put_u32(out, history.replays);
        }
        if let Some(losses) = losses {
            put_u32(out, u32::from(losses.all) | u32::from(losses.solo) << 16);
        }
        if let Some(dead_letter) = self.dead_letter {
            put_u64(out, dead_letter.number);
            put_u64(out, dead_letter.at.as_millis());
            out.push(match dead_letter.cause {
                DeadLetterCause::AttemptsUsedUp => 1,
                DeadLetterCause::WorkerLost => 2,
                DeadLetterCause::Refused => 3,
            });
        }
        if let Some(group) = self.group {
            put_text(out, group);
        }
        for failure in [first_error, last_error].into_iter().flatten() {
            put_u64(out, failure.at.as_millis());
            put_text(out, &failure.error);
        }
        if let Some(dead_letter) = self.dead_letter {
            put_text(out, &dead_letter.reason);
        }
        put_text(out, self.id);
        if let Some(key) = self.key {
            put_text(out, key);
        }
        put_u32(out, self.headers.len() as u32);
        for (name, value) in self.headers {
            put_text(out, name);
            put_text(out, value);
        }
        out.extend_from_slice(self.body);
    }
}

/// Cause of a dead letter that was written before causes were stored.
fn cause_from_reason(reason: &str) -> DeadLetterCause {
    let used_up = reason.starts_with("all ") && reason.ends_with(" attempts failed");
    if used_up { DeadLetterCause::AttemptsUsedUp } else { DeadLetterCause::Refused }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a text with its length as a LEB128 integer.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len() as u32;
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Payload decoder. `None` only for a payload that this program did not write.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.u64().map(Timestamp::from_millis)
    }

    fn text(&mut self) -> Option<&'a str> {
        let mut length = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            length |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return std::str::from_utf8(self.take(length as usize)?).ok();
            }
        }
        None
    }
}

/// Decoded prefix of a payload.
struct PayloadPrefix<'a> {
    summary: PayloadSummary<'a>,
    flags: u8,
    replays: u32,
    dead_at: Timestamp,
    cause: Option<DeadLetterCause>,
}

impl<'a> PayloadSummary<'a> {
    /// Decodes the prefix of a payload.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Self> {
        Some(PayloadPrefix::read(&mut Reader(payload))?.summary)
    }
}

impl<'a> PayloadPrefix<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let flags = reader.u8()?;
        let published_at = reader.time()?;
        let due = reader.time()?;
        let mut replays = 0;
        let history = if flags & HAS_HISTORY == 0 {
            None
        } else {
            let origin = Position { segment: reader.u32()?, offset: reader.u32()? };
            let (sequence, attempts) = (reader.u64()?, reader.u32()?);
            replays = reader.u32()?;
            Some((origin, sequence, attempts))
        };
        let losses = if flags & HAS_LOSSES == 0 { 0 } else { reader.u32()? };
        let losses = Losses { all: losses as u16, solo: (losses >> 16) as u16 };
        let (mut dead_at, mut cause) = (Timestamp::default(), None);
        let dead_letter = if flags & HAS_DEAD_LETTER == 0 {
            None
        } else {
            let number = reader.u64()?;
            dead_at = reader.time()?;
            if flags & HAS_CAUSE != 0 {
                cause = match reader.u8()? {
                    1 => Some(DeadLetterCause::AttemptsUsedUp),
                    2 => Some(DeadLetterCause::WorkerLost),
                    3 => Some(DeadLetterCause::Refused),
                    _ => return None,
                };
            }
            Some(number)
        };
        let group = if flags & HAS_GROUP == 0 { None } else { Some(reader.text()?) };
        let summary = PayloadSummary { published_at, due, group, history, losses, dead_letter };
        Some(PayloadPrefix { summary, flags, replays, dead_at, cause })
    }
}

impl StoredMessage {
    /// Decodes a whole payload; the body is a slice of it.
    pub(crate) fn read(payload: &Bytes) -> Option<StoredMessage> {
        let mut reader = Reader(payload);
        let PayloadPrefix { summary, flags, replays, dead_at, cause } = PayloadPrefix::read(&mut reader)?;
        let mut failure = |flag: u8| -> Option<Option<Failure>> {
            if flags & flag == 0 {
                return Some(None);
            }
            let at = reader.time()?;
            Some(Some(Failure { error: reader.text()?.to_owned(), at }))
        };
        let first_error = failure(HAS_FIRST_ERROR)?;
        let last_error = failure(HAS_LAST_ERROR)?;
        let history = summary.history.map(|(origin, sequence, attempts)| MessageHistory {
            origin,
            sequence,
            attempts,
            replays,
            losses: summary.losses,
            first_error,
            last_error,
        });
        let dead_letter = match summary.dead_letter {
            None => None,
            Some(number) => {
                let reason = reader.text()?.to_owned();
                Some(DeadLetterInfo {
                    number,
                    at: dead_at,
                    cause: cause.unwrap_or_else(|| cause_from_reason(&reason)),
                    reason,
                })
            }
        };
        let id = MessageId::from(reader.text()?);
        let key = if flags & HAS_KEY == 0 { None } else { Some(reader.text()?.to_owned()) };
        let mut headers = Headers::new();
        for _ in 0..reader.u32()? {
            headers.insert(reader.text()?.to_owned(), reader.text()?.to_owned());
        }
        let body = payload.slice(payload.len() - reader.0.len()..);
        Some(StoredMessage {
            published_at: summary.published_at,
            due: summary.due,
            group: summary.group.map(str::to_owned),
            history,
            dead_letter,
            id,
            key,
            headers,
            body,
        })
    }
}

#[cfg(test)]
mod tests;
