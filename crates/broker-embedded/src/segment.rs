//! Segments: the files of the log, their names, and how their records are found again.

use crate::{
    disk::{Disk, DiskFile, preallocate},
    journal::Journal,
    record::{ALIGN, HEADER, Head, record_size},
};
use std::{io, sync::Arc};

/// Records start here; before them stands who the segment belongs to.
pub(crate) const FIRST_RECORD: u32 = 32;
pub(crate) const MAGIC: &[u8; 8] = b"CRAWLSEG";

/// An open segment and what is known of it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) journal: Journal,
    pub(crate) salt: u32,
    /// Where its records end.
    pub(crate) end: u32,
    /// Whether it takes no more records.
    pub(crate) sealed: bool,
    /// How many of its records are still needed.
    pub(crate) live: u32,
    /// How many bytes those take.
    pub(crate) live_bytes: u64,
    /// The index slots its records were given, in order; some may have been given away since.
    pub(crate) slots: Vec<u32>,
    /// How many of its slots this round of housekeeping has looked at.
    pub(crate) looked_at: usize,
    /// Copies of its records that are about to be written elsewhere. Until then its journal must stay:
    /// it tells whether the copies still count.
    pub(crate) pins: u32,
    /// The disk failed under it: its file is not used again.
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
            looked_at: 0,
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

/// What a file in the queue's directory is, by its name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Data(u32),
    Journal(u32),
    Spare(u32),
    /// The catalog, the the reserve, or a folder of what was set aside.
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
            FileName::Spare(number)
        } else if matches!(
            name,
            crate::catalog::FILE
                | crate::catalog::NEW_FILE
                | crawlway_lock::FILE
                | crate::reserve::FILE
                | crate::recover::SET_ASIDE
                | "lost+found"
        ) {
            FileName::Other
        } else {
            FileName::Foreign
        }
    }
}

/// Makes the checksums of each segment of each directory its own.
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

/// Whether a file starts as one of this directory's segments does.
pub(crate) fn has_preamble(file: &dyn DiskFile, directory: u64, id: u32) -> io::Result<bool> {
    let mut bytes = [0; FIRST_RECORD as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes == preamble(directory, id))
}

/// Writes a file of zeros that can become a segment later, without the wait.
///
/// Leaves at least `spared` bytes of the disk alone, and fills nothing when there is not enough.
pub(crate) fn create_spare(
    disk: &dyn Disk,
    number: u32,
    size: u64,
    spared: u64,
) -> io::Result<Arc<dyn DiskFile>> {
    if disk.free()? < size + spared {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let name = spare_name(number);
    let file = disk.create(&name)?;
    let filled = preallocate(&*file, size).and_then(|()| file.sync());
    if let Err(error) = filled {
        // Half a spare is of no use, and on a full disk its room is.
        let _ = disk.remove(&name);
        return Err(error);
    }
    Ok(file)
}

/// Turns a spare file into the segment with this id, durably.
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

/// What a scan finds, in order of offset.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    Record {
        offset: u32,
        head: Head,
        payload: &'a [u8],
    },
    /// Bytes that should have been records.
    Damage {
        offset: u32,
        bytes: &'a [u8],
    },
    /// Headers without their payloads at the very end: a crash in the middle of a write leaves that. So
    /// would damage to the very last records.
    Unfinished {
        offset: u32,
        bytes: &'a [u8],
    },
}

/// What is left when a scan has reached the end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Where the last record ends.
    pub(crate) end: u32,
    /// How many bytes of an unfinished last commit were passed over.
    pub(crate) torn: u64,
}

/// Finds all records of a segment that was read whole.
///
/// Below `sealed` (where the records ended when the segment was finished, if it was) and before records of
/// a later commit everything was once synced: what is unreadable there is damage. Inside or behind the
/// last commit of an unfinished segment it may never have been: the power went out while it was being
/// written and nobody was told that it is safe.
pub(crate) fn scan<'a>(
    bytes: &'a [u8],
    salt: u32,
    sealed: Option<u32>,
    mut each: impl FnMut(Found<'a>),
) -> ScanEnd {
    let mut at = FIRST_RECORD as usize;
    let mut end = at;
    let mut last_commit = 0;
    let mut hole: Option<Hole> = None;
    let mut torn = 0;
    let mut highest_commit = None;
    // Behind the end of a finished segment stands at most what a failed commit has left.
    let limit = sealed.map_or(bytes.len(), |sealed| (sealed as usize).min(bytes.len()));
    while at + HEADER <= limit {
        // Commit numbers only grow; a smaller one was left behind by a commit that failed.
        let head = Head::read(&bytes[at..], salt).filter(|head| {
            head.commit.number >= last_commit && at + HEADER + head.payload as usize <= bytes.len()
        });
        let Some(head) = head else {
            hole.get_or_insert(Hole { start: at, headed_until: at });
            at = next_candidate(bytes, at);
            continue;
        };
        let payload = &bytes[at + HEADER..at + HEADER + head.payload as usize];
        let size = record_size(payload.len());
        if !head.verifies(payload, salt) {
            hole.get_or_insert(Hole { start: at, headed_until: at }).headed_until = at + size;
            at += size;
            continue;
        }
        if let Some(Hole { start, .. }) = hole.take() {
            // From where an unconfirmed commit starts, what is missing never was promised.
            let unconfirmed = sealed.is_none()
                && head.commit.number == *highest_commit.get_or_insert_with(|| highest(&bytes[at..], salt));
            let promised = if unconfirmed { (head.commit.start as usize).clamp(start, at) } else { at };
            torn += (at - promised) as u64;
            if promised > start {
                each(Found::Damage { offset: start as u32, bytes: &bytes[start..promised] });
            }
        }
        last_commit = head.commit.number;
        each(Found::Record { offset: at as u32, head, payload });
        at += size;
        end = at.min(bytes.len());
    }
    let cut_off = sealed.is_some_and(|sealed| sealed as usize > bytes.len());
    if hole.is_none() && cut_off {
        // The file was cut off just behind a record.
        each(Found::Damage { offset: end as u32, bytes: &bytes[end.min(bytes.len())..] });
    }
    if let Some(Hole { start, headed_until }) = hole {
        let sealed = sealed.map_or(0, |sealed| (sealed as usize).min(bytes.len()));
        let headed = headed_until.min(bytes.len());
        let offset = start as u32;
        if sealed > start || cut_off {
            each(Found::Damage { offset, bytes: &bytes[start..sealed.max(start)] });
        } else if headed > start {
            each(Found::Unfinished { offset, bytes: &bytes[start..headed] });
        }
        end = end.max(sealed).max(headed);
    }
    ScanEnd { end: end as u32, torn }
}

/// A stretch without readable records.
struct Hole {
    start: usize,
    /// Up to here, headers said that there are records.
    headed_until: usize,
}

/// The next place where a record might start. Runs of zeros, as in the unused rest of a segment, are
/// passed over quickly.
fn next_candidate(bytes: &[u8], at: usize) -> usize {
    let mut next = at + ALIGN;
    while let Some(chunk) = bytes.get(next..next + 512)
        && chunk.iter().all(|byte| *byte == 0)
    {
        next += 512;
    }
    next
}

/// The highest commit of which a record is readable from here on.
fn highest(bytes: &[u8], salt: u32) -> u32 {
    let (mut at, mut highest) = (0, 0);
    while at + HEADER <= bytes.len() {
        match Head::read(&bytes[at..], salt) {
            Some(head) => {
                highest = highest.max(head.commit.number);
                at += record_size(head.payload as usize);
            }
            None => at = next_candidate(bytes, at),
        }
    }
    highest
}
