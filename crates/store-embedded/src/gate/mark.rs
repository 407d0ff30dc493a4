//! The mark: a few bytes in a file that say until when requests of this process can start and end.
//!
//! It is a lease on the future. Before a permit is handed out that lasts longer than the mark says, the mark is
//! moved on by [`AHEAD`] more than is needed, so that a busy gate writes it once a second. What the operating
//! system has been given outlives the process, so nothing is synced. The file is always as long as it ever gets,
//! and is written over in place, which a full disk does not prevent.

use super::{complaint::Complaint, lane::WOBBLE, life::unavailable};
use crawlway_store::{GateError, Timestamp};
use parking_lot::Mutex;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const FILE: &str = "mark";
const MAGIC: [u8; 8] = *b"CWGATE1\n";
const LENGTH: usize = 36;

/// How much further the mark is moved than is needed.
pub(super) const AHEAD: Duration = Duration::from_secs(1);

/// No process gives more permits than this while one mark holds.
const IDS: u64 = 1 << 30;

/// What a mark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// No request started after this.
    pub(super) starts: Timestamp,
    /// No request ended after this, or its lease did before it.
    pub(super) ends: Timestamp,
    /// No permit has a greater id.
    pub(super) ids: u64,
}

/// What an earlier process left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// There was none.
    Nothing,
    /// It cannot be read, so that the earlier process may have ended just now.
    Garbage,
    Bounds(Bounds),
}

#[derive(Debug)]
pub(super) struct Mark {
    path: PathBuf,
    file: Mutex<(File, Complaint)>,
    /// What the file says of ends, in milliseconds.
    covered: AtomicU64,
    lease: Duration,
}

impl Mark {
    pub(super) fn open(directory: &Path, lease: Duration) -> Result<(Self, Found), GateError> {
        let path = directory.join(FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| unavailable("open", &path, &error))?;
        let mut bytes = Vec::new();
        let most = LENGTH as u64 + 1;
        (&mut file).take(most).read_to_end(&mut bytes).map_err(|error| unavailable("read", &path, &error))?;
        let found = match bytes.as_slice() {
            [] => Found::Nothing,
            bytes => read(bytes).map_or(Found::Garbage, Found::Bounds),
        };
        let file = Mutex::new((file, Complaint::default()));
        Ok((Self { path, file, covered: AtomicU64::new(0), lease }, found))
    }

    /// Sees to it that the mark covers a permit that lasts until then, before anybody uses it.
    pub(super) fn cover(&self, until: Timestamp, id: u64) {
        if self.is_covered(until) {
            return;
        }
        let mut file = self.file.lock();
        if self.is_covered(until) {
            return;
        }
        let ends = until + AHEAD;
        let bounds = Bounds { starts: ends - self.lease, ends, ids: id.saturating_add(IDS) };
        self.write(&mut file, bounds);
        // If it could not be written: to try again for every permit would slow down everybody.
        self.covered.store(ends.as_millis(), Ordering::Release);
    }

    /// Says exactly what was, when nothing more will be.
    pub(super) fn settle(&self, bounds: Bounds) {
        let mut file = self.file.lock();
        self.write(&mut file, bounds);
        self.covered.store(0, Ordering::Release);
    }

    /// A clock that was set back would leave the mark far ahead, so that is not covered, either.
    fn is_covered(&self, until: Timestamp) -> bool {
        let covered = Timestamp::from_millis(self.covered.load(Ordering::Acquire));
        until <= covered && covered <= until + AHEAD + WOBBLE
    }

    fn write(&self, (file, complaint): &mut (File, Complaint), bounds: Bounds) {
        let written = write(file, bounds);
        if let Err(error) = written {
            complaint.about(&self.path, &error);
        }
    }
}

fn write(file: &mut File, Bounds { starts, ends, ids }: Bounds) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(&MAGIC);
    for number in [starts.as_millis(), ends.as_millis(), ids] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&bytes)
}

fn read(bytes: &[u8]) -> Option<Bounds> {
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    let (magic, numbers) = body.split_first_chunk::<8>()?;
    if bytes.len() != LENGTH || *magic != MAGIC || u32::from_le_bytes(*checksum) != crc32fast::hash(body) {
        return None;
    }
    let number = |index: usize| {
        let bytes = numbers.get(8 * index..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    };
    Some(Bounds {
        starts: Timestamp::from_millis(number(0)?),
        ends: Timestamp::from_millis(number(1)?),
        ids: number(2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn opened(directory: &Path) -> (Mark, Found) {
        Mark::open(directory, LEASE).expect("the mark opens")
    }

    #[test]
    fn a_busy_gate_writes_once_a_second_and_before_it_must() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (mark, found) = opened(folder.path());
        assert_eq!(found, Found::Nothing);
        let mut writes = 0;
        let mut before = Found::Nothing;
        for now in (1_000_000..1_010_000).step_by(10) {
            let until = at(now) + LEASE;
            mark.cover(until, now);
            let (_, found) = opened(folder.path());
            let Found::Bounds(Bounds { starts, ends, ids }) = found else { panic!("{found:?} at {now}") };
            assert!(ends >= until && ends <= until + AHEAD, "{ends:?} at {now}");
            assert!(starts >= at(now) && starts <= at(now) + AHEAD && ids > now);
            writes += u32::from(std::mem::replace(&mut before, found) != found);
        }
        assert!(writes <= 11, "{writes} writes in 10 s");
    }

    #[test]
    fn a_clock_set_back_brings_the_mark_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (mark, _) = opened(folder.path());
        mark.cover(at(10_000_000), 1);
        mark.cover(at(5_000_000), 2);
        let (_, found) = opened(folder.path());
        assert!(matches!(found, Found::Bounds(bounds) if bounds.ends == at(5_000_000) + AHEAD), "{found:?}");
    }

    #[test]
    fn no_byte_of_it_can_be_wrong_unnoticed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bounds = Bounds { starts: at(1), ends: at(2), ids: 3 };
        let (mark, _) = opened(folder.path());
        mark.settle(bounds);
        let path = folder.path().join(FILE);
        let whole = std::fs::read(&path).expect("the file");
        assert_eq!(read(&whole), Some(bounds));
        for index in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            assert_eq!(read(&bytes), None, "byte {index}");
            assert_eq!(read(&whole[..index]), None, "cut at {index}");
        }
        assert_eq!(read(&[whole.as_slice(), b"x"].concat()), None);
    }
}
