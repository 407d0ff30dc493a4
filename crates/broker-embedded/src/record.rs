//! Records: how a message lies in a segment, with checksums that tell a record from anything else.
//!
//! A record is a header of 24 bytes, a payload, and padding to a multiple of 8:
//!
//! ```text
//! 0   4   payload length
//! 4   4   commit number: which group commit of this segment wrote it
//! 8   4   where in the segment that commit started
//! 12  2   queue number
//! 14  1   kind
//! 15  1   zero
//! 16  4   checksum of the header, salted
//! 20  4   checksum of the payload, salted
//! ```
//!
//! The salt differs from segment to segment, so that what an earlier use of a recycled file left behind
//! is never mistaken for a record, and neither is a body that was made to look like one.

use bytes::Bytes;
use crawlway_broker::{Cause, Failure, Headers, MessageId, Timestamp};

pub(crate) const HEADER: usize = 24;
/// Records start at multiples of this.
pub(crate) const ALIGN: usize = 8;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message as it was published.
    Message = 1,
    /// A message that was written again with what has happened to it: a retry, a replay or a relocation.
    Copy = 2,
    /// A dead letter.
    Dead = 3,
}

/// A place in the log: segment and offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

impl Place {
    /// Orders messages by when they were first published.
    pub(crate) fn sequence(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }
}

/// Which group commit of its segment wrote a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) number: u32,
    /// The offset of its first record: everything before was synced when it was written.
    pub(crate) start: u32,
}

/// A record's header, verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
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

/// How many bytes a record with this payload takes in a segment.
pub(crate) fn record_size(payload: usize) -> usize {
    (HEADER + payload).next_multiple_of(ALIGN)
}

impl Head {
    /// Reads and verifies a header; `None` if these bytes are not one.
    pub(crate) fn read(bytes: &[u8], salt: u32) -> Option<Head> {
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
        Some(Head {
            payload: u32_at(0),
            commit: Commit { number: u32_at(4), start: u32_at(8) },
            queue: u16::from_le_bytes([bytes[12], bytes[13]]),
            kind,
            payload_checksum: u32_at(20),
        })
    }

    /// Whether this is the payload that was written with the header.
    pub(crate) fn verifies(&self, payload: &[u8], salt: u32) -> bool {
        payload.len() == self.payload as usize && checksum(salt, payload) == self.payload_checksum
    }

    /// Fills in the header of a record whose payload already stands behind it.
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
        let head_checksum = checksum(salt, &header[..16]);
        header[16..20].copy_from_slice(&head_checksum.to_le_bytes());
        header[20..].copy_from_slice(&checksum(salt, &rest[..payload]).to_le_bytes());
    }
}

/// As a sequence: the copy's own place is its place in line.
pub(crate) const OWN_PLACE: u64 = 0;

/// What a copy or a dead letter carries along from before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The record this is a copy of. The copy counts only once that record is marked as moved.
    pub(crate) origin: Place,
    /// The place of the first record of this message, which keeps its order, or [`OWN_PLACE`].
    pub(crate) sequence: u64,
    /// Attempts that failed.
    pub(crate) attempts: u32,
    pub(crate) replays: u32,
    pub(crate) losses: Losses,
    pub(crate) first_error: Option<Failure>,
    pub(crate) last_error: Option<Failure>,
}

/// How many receivers of a message were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Losses {
    pub(crate) all: u16,
    /// Those of them that ran nothing else.
    pub(crate) solo: u16,
}

/// What only a dead letter has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Death {
    /// Names and orders the dead letters of all queues.
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) cause: Cause,
    pub(crate) reason: String,
}

/// Everything in a record's payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) published_at: Timestamp,
    /// Not to be delivered before; zero when there is no such time.
    pub(crate) due: Timestamp,
    pub(crate) group: Option<String>,
    pub(crate) carried: Option<Carried>,
    pub(crate) death: Option<Death>,
    pub(crate) id: MessageId,
    pub(crate) key: Option<String>,
    pub(crate) headers: Headers,
    pub(crate) body: Bytes,
}

/// What recovery needs of a payload, read without taking the rest apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outline<'a> {
    pub(crate) published_at: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) group: Option<&'a str>,
    /// Origin, sequence and failed attempts.
    pub(crate) carried: Option<(Place, u64, u32)>,
    pub(crate) losses: Losses,
    pub(crate) death: Option<u64>,
}

const HAS_GROUP: u8 = 1;
const HAS_CARRIED: u8 = 2;
const HAS_DEATH: u8 = 4;
const HAS_KEY: u8 = 8;
const HAS_FIRST_ERROR: u8 = 16;
const HAS_LAST_ERROR: u8 = 32;
const HAS_LOSSES: u8 = 64;
/// Dead letters of before have none, and their reason tells.
const HAS_CAUSE: u8 = 128;

/// A message's parts, borrowed, as they are encoded.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) published_at: Timestamp,
    pub(crate) due: Timestamp,
    pub(crate) group: Option<&'a str>,
    pub(crate) carried: Option<&'a Carried>,
    pub(crate) death: Option<&'a Death>,
    pub(crate) id: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) headers: &'a Headers,
    pub(crate) body: &'a [u8],
}

impl Stored {
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            published_at: self.published_at,
            due: self.due,
            group: self.group.as_deref(),
            carried: self.carried.as_ref(),
            death: self.death.as_ref(),
            id: self.id.as_str(),
            key: self.key.as_deref(),
            headers: &self.headers,
            body: &self.body,
        }
    }
}

impl Parts<'_> {
    /// Appends room for a header, the payload and the padding to the buffer; returns the payload's length.
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
        let carried = self.carried;
        let first_error = carried.and_then(|carried| carried.first_error.as_ref());
        let last_error = carried.and_then(|carried| carried.last_error.as_ref());
        let losses = carried.map(|carried| carried.losses).filter(|losses| *losses != Losses::default());
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.group.is_some(), HAS_GROUP)
                | flag(carried.is_some(), HAS_CARRIED)
                | flag(self.death.is_some(), HAS_DEATH)
                | flag(self.key.is_some(), HAS_KEY)
                | flag(first_error.is_some(), HAS_FIRST_ERROR)
                | flag(last_error.is_some(), HAS_LAST_ERROR)
                | flag(losses.is_some(), HAS_LOSSES)
                | flag(self.death.is_some(), HAS_CAUSE),
        );
        put_u64(out, self.published_at.as_millis());
        put_u64(out, self.due.as_millis());
        if let Some(carried) = carried {
            put_u32(out, carried.origin.segment);
            put_u32(out, carried.origin.offset);
            put_u64(out, carried.sequence);
            put_u32(out, carried.attempts);
            put_u32(out, carried.replays);
        }
        if let Some(losses) = losses {
            put_u32(out, u32::from(losses.all) | u32::from(losses.solo) << 16);
        }
        if let Some(death) = self.death {
            put_u64(out, death.number);
            put_u64(out, death.at.as_millis());
            out.push(match death.cause {
                Cause::AttemptsUsedUp => 1,
                Cause::WorkerLost => 2,
                Cause::Refused => 3,
            });
        }
        if let Some(group) = self.group {
            put_text(out, group);
        }
        for failure in [first_error, last_error].into_iter().flatten() {
            put_u64(out, failure.at.as_millis());
            put_text(out, &failure.error);
        }
        if let Some(death) = self.death {
            put_text(out, &death.reason);
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

/// What ended a message of before the cause was written, by the reason that was.
fn cause_of(reason: &str) -> Cause {
    let used_up = reason.starts_with("all ") && reason.ends_with(" attempts failed");
    if used_up { Cause::AttemptsUsedUp } else { Cause::Refused }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A length in one to five bytes (seven bits each, low first), then the text.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len() as u32;
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Takes a payload apart. `None` only for a payload that this program did not write.
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

/// The beginning of a payload.
struct Beginning<'a> {
    outline: Outline<'a>,
    flags: u8,
    replays: u32,
    dead_at: Timestamp,
    cause: Option<Cause>,
}

impl<'a> Outline<'a> {
    /// Reads the beginning of a payload.
    pub(crate) fn read(payload: &'a [u8]) -> Option<Self> {
        Some(Beginning::read(&mut Reader(payload))?.outline)
    }
}

impl<'a> Beginning<'a> {
    fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let flags = reader.u8()?;
        let published_at = reader.time()?;
        let due = reader.time()?;
        let mut replays = 0;
        let carried = if flags & HAS_CARRIED == 0 {
            None
        } else {
            let origin = Place { segment: reader.u32()?, offset: reader.u32()? };
            let (sequence, attempts) = (reader.u64()?, reader.u32()?);
            replays = reader.u32()?;
            Some((origin, sequence, attempts))
        };
        let losses = if flags & HAS_LOSSES == 0 { 0 } else { reader.u32()? };
        let losses = Losses { all: losses as u16, solo: (losses >> 16) as u16 };
        let (mut dead_at, mut cause) = (Timestamp::default(), None);
        let death = if flags & HAS_DEATH == 0 {
            None
        } else {
            let number = reader.u64()?;
            dead_at = reader.time()?;
            if flags & HAS_CAUSE != 0 {
                cause = match reader.u8()? {
                    1 => Some(Cause::AttemptsUsedUp),
                    2 => Some(Cause::WorkerLost),
                    3 => Some(Cause::Refused),
                    _ => return None,
                };
            }
            Some(number)
        };
        let group = if flags & HAS_GROUP == 0 { None } else { Some(reader.text()?) };
        let outline = Outline { published_at, due, group, carried, losses, death };
        Some(Beginning { outline, flags, replays, dead_at, cause })
    }
}

impl Stored {
    /// Reads a whole payload; the body stays a slice of it.
    pub(crate) fn read(payload: &Bytes) -> Option<Stored> {
        let mut reader = Reader(payload);
        let Beginning { outline, flags, replays, dead_at, cause } = Beginning::read(&mut reader)?;
        let mut failure = |flag: u8| -> Option<Option<Failure>> {
            if flags & flag == 0 {
                return Some(None);
            }
            let at = reader.time()?;
            Some(Some(Failure { error: reader.text()?.to_owned(), at }))
        };
        let first_error = failure(HAS_FIRST_ERROR)?;
        let last_error = failure(HAS_LAST_ERROR)?;
        let carried = outline.carried.map(|(origin, sequence, attempts)| Carried {
            origin,
            sequence,
            attempts,
            replays,
            losses: outline.losses,
            first_error,
            last_error,
        });
        let death = match outline.death {
            None => None,
            Some(number) => {
                let reason = reader.text()?.to_owned();
                Some(Death { number, at: dead_at, cause: cause.unwrap_or_else(|| cause_of(&reason)), reason })
            }
        };
        let id = MessageId::from(reader.text()?);
        let key = if flags & HAS_KEY == 0 { None } else { Some(reader.text()?.to_owned()) };
        let mut headers = Headers::new();
        for _ in 0..reader.u32()? {
            headers.insert(reader.text()?.to_owned(), reader.text()?.to_owned());
        }
        let body = payload.slice(payload.len() - reader.0.len()..);
        Some(Stored {
            published_at: outline.published_at,
            due: outline.due,
            group: outline.group.map(str::to_owned),
            carried,
            death,
            id,
            key,
            headers,
            body,
        })
    }
}

#[cfg(test)]
mod tests;
