//! Log segments: files, names, and the scan that finds their records.

use crate::{
    disk::{Disk, DiskFile, preallocate},
    journal::Journal,
    record::{ALIGN, HEADER, RecordHeader, record_size},
};
use std::{io, sync::Arc};

/// Offset of the first record, after the preamble.
pub(crate) const FIRST_RECORD: u32 = 32;
pub(crate) const MAGIC: &[u8; 8] = b"CRAWLSEG";

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) journal: Journal,
    pub(crate) salt: u32,
    /// End of its records.
    pub(crate) end: u32,
    /// Whether it is closed for appending.
    pub(crate) sealed: bool,
    /// Number of live records.
    pub(crate) live: u32,
    /// Total size of the live records.
    pub(crate) live_bytes: u64,
    /// Index slots of its records, in order. Some may have been reused since.
    pub(crate) slots: Vec<u32>,
    /// Number of slots that the current compaction has visited.
    pub(crate) compaction_cursor: usize,
    /// Number of copies of its records that are being written. Its journal decides whether they are valid, so it must
    /// stay until then.
    pub(crate) pins: u32,
    /// Whether an I/O error occurred, after which the file is not reused.
    pub(crate) failed: bool,
}

impl Segment {
    pub(crate) fn new(file: Arc<dyn DiskFile>, journal: Journal, salt: u32, end: u32) -> Self {
        Self {
            file,
            journal,
            salt,
            end,
            sealed: false,
            live: 0,
            live_bytes: 0,
            slots: Vec::new(),
            compaction_cursor: 0,
            pins: 0,
            failed: false,
        }
    }
}

pub(crate) fn data_name(id: u32) -> String {
    format!("{id:010}.seg")
}

pub(crate) fn journal_name(id: u32) -> String {
    format!("{id:010}.ops")
}

pub(crate) fn spare_name(number: u32) -> String {
    format!("{number:010}.spare")
}

/// Type of a file in the queue directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Data(u32),
    Journal(u32),
    SpareFile(u32),
    /// The catalog, the lock, the reserve or the quarantine folder.
    Other,
    Foreign,
}

impl FileName {
    pub(crate) fn of(name: &str) -> Self {
        let numbered = |suffix: &str| {
            let digits = name.strip_suffix(suffix)?;
            (digits.len() == 10 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
        };
        if let Some(id) = numbered(".seg") {
            FileName::Data(id)
        } else if let Some(id) = numbered(".ops") {
            FileName::Journal(id)
        } else if let Some(number) = numbered(".spare") {
            FileName::SpareFile(number)
        } else if matches!(
            name,
            crate::catalog::FILE
                | crate::catalog::NEW_FILE
                | crawlway_lock::FILE
                | crate::reserve::FILE
                | crate::recover::QUARANTINE
                | "lost+found"
        ) {
            FileName::Other
        } else {
            FileName::Foreign
        }
    }
}

/// Checksum salt, different for each segment of each directory.
pub(crate) fn salt_of(directory: u64, id: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&directory.to_le_bytes());
    hasher.update(&id.to_le_bytes());
    hasher.finalize()
}

fn preamble(directory: u64, id: u32) -> [u8; FIRST_RECORD as usize] {
    let mut bytes = [0; FIRST_RECORD as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&directory.to_le_bytes());
    bytes[16..20].copy_from_slice(&id.to_le_bytes());
    bytes
}

/// Whether a file has the preamble of this segment of this directory.
pub(crate) fn has_preamble(file: &dyn DiskFile, directory: u64, id: u32) -> io::Result<bool> {
    let mut bytes = [0; FIRST_RECORD as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes == preamble(directory, id))
}

/// Creates a zero-filled spare file, to be used as a segment later.
///
/// Fails without writing unless `reserve` bytes stay free.
pub(crate) fn create_spare(
    disk: &dyn Disk,
    number: u32,
    size: u64,
    reserve: u64,
) -> io::Result<Arc<dyn DiskFile>> {
    if disk.free()? < size + reserve {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = spare_name(number);
    let file = disk.create(&name)?;
    let filled = preallocate(&*file, size).and_then(|()| file.sync());
    if let Err(error) = filled {
        // A partial spare is useless and wastes space on a full disk.
        let _ = disk.remove(&name);
        return Err(error);
    }
    Ok(file)
}

/// Converts a spare file to a segment, durably.
pub(crate) fn adopt_spare(
    disk: &dyn Disk,
    number: u32,
    file: Arc<dyn DiskFile>,
    directory: u64,
    id: u32,
) -> io::Result<Segment> {
    file.write_at(&preamble(directory, id), 0)?;
    file.sync()?;
    let salt = salt_of(directory, id);
    let journal = Journal::open(disk.create(&journal_name(id))?, salt, 0);
    disk.rename(&spare_name(number), &data_name(id))?;
    disk.sync_dir()?;
    Ok(Segment::new(file, journal, salt, FIRST_RECORD))
}

/// Item found by a scan, in order of offset.
#[derive(Debug)]
pub(crate) enum ScanItem<'a> {
    Record {
        offset: u32,
        header: RecordHeader,
        payload: &'a [u8],
    },
    /// Bytes that were synced records once.
    Damage {
        offset: u32,
        bytes: &'a [u8],
    },
    /// Headers without valid payloads at the end: a write that a crash interrupted, or damage to the last records.
    Unfinished {
        offset: u32,
        bytes: &'a [u8],
    },
}

/// Result of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// End of the last record.
    pub(crate) end: u32,
    /// Number of bytes skipped in a torn last commit.
    pub(crate) torn: u64,
}

/// Finds all records in the bytes of a segment.
///
/// Everything before `sealed` (end of the records, if sealed) and before a record of a later commit was synced once:
/// unreadable bytes there are damage. Unreadable bytes within or after the last commit of an unsealed segment are a
/// torn write that was never confirmed.
pub(crate) fn scan<'a>(
    bytes: &'a [u8],
    salt: u32,
    sealed: Option<u32>,
    mut each: impl FnMut(ScanItem<'a>),
) -> ScanEnd {
    let mut at = FIRST_RECORD as usize;
    let mut end = at;
    let mut last_commit = 0;
    let mut hole: Option<UnreadableRange> = None;
    let mut torn = 0;
    let mut highest_commit = None;
    // After the end of a sealed segment there are at most remains of a failed commit.
    let limit = sealed.map_or(bytes.len(), |sealed| (sealed as usize).min(bytes.len()));
    while at + HEADER <= limit {
        // Commit numbers ascend. A lower one is left over from a failed commit.
        let header = RecordHeader::read(&bytes[at..], salt).filter(|header| {
            header.commit.number >= last_commit && at + HEADER + header.payload as usize <= bytes.len()
        });
        let Some(header) = header else {
            hole.get_or_insert(UnreadableRange { start: at, header_end: at });
            at = next_candidate(bytes, at);
            continue;
        };
        let payload = &bytes[at + HEADER..at + HEADER + header.payload as usize];
        let size = record_size(payload.len());
        if !header.matches(payload, salt) {
            hole.get_or_insert(UnreadableRange { start: at, header_end: at }).header_end = at + size;
            at += size;
            continue;
        }
        if let Some(UnreadableRange { start, .. }) = hole.take() {
            // Nothing of an unconfirmed commit was promised to a publisher.
            let unconfirmed = sealed.is_none()
                && header.commit.number == *highest_commit.get_or_insert_with(|| highest(&bytes[at..], salt));
            let confirmed = if unconfirmed { (header.commit.start as usize).clamp(start, at) } else { at };
            torn += (at - confirmed) as u64;
            if confirmed > start {
                each(ScanItem::Damage { offset: start as u32, bytes: &bytes[start..confirmed] });
            }
        }
        last_commit = header.commit.number;
        each(ScanItem::Record { offset: at as u32, header, payload });
        at += size;
        end = at.min(bytes.len());
    }
    let cut_off = sealed.is_some_and(|sealed| sealed as usize > bytes.len());
    if hole.is_none() && cut_off {
        // The file was truncated at a record boundary.
        each(ScanItem::Damage { offset: end as u32, bytes: &bytes[end.min(bytes.len())..] });
    }
    if let Some(UnreadableRange { start, header_end }) = hole {
        let sealed = sealed.map_or(0, |sealed| (sealed as usize).min(bytes.len()));
        let headed = header_end.min(bytes.len());
        let offset = start as u32;
        if sealed > start || cut_off {
            each(ScanItem::Damage { offset, bytes: &bytes[start..sealed.max(start)] });
        } else if headed > start {
            each(ScanItem::Unfinished { offset, bytes: &bytes[start..headed] });
        }
        end = end.max(sealed).max(headed);
    }
    ScanEnd { end: end as u32, torn }
}

/// A range without valid records.
struct UnreadableRange {
    start: usize,
    /// End of the part that has valid headers.
    header_end: usize,
}

/// Next offset where a record may start. Skips runs of zeros quickly, as in the unused rest of a segment.
fn next_candidate(bytes: &[u8], at: usize) -> usize {
    let mut next = at + ALIGN;
    while let Some(chunk) = bytes.get(next..next + 512)
        && chunk.iter().all(|byte| *byte == 0)
    {
        next += 512;
    }
    next
}

/// Highest commit number among the valid headers.
fn highest(bytes: &[u8], salt: u32) -> u32 {
    let (mut at, mut highest) = (0, 0);
    while at + HEADER <= bytes.len() {
        match RecordHeader::read(&bytes[at..], salt) {
            Some(header) => {
                highest = highest.max(header.commit.number);
                at += record_size(header.payload as usize);
            }
            None => at = next_candidate(bytes, at),
        }
    }
    highest
}
