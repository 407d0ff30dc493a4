//! Watermark: upper bounds on when requests of this process can start and end, in a small file.
//!
//! Before a permit is handed out that ends after the watermark, the watermark is raised by [`LEAD`] more than needed, so
//! that a busy limiter writes it once a second. Data handed to the operating system survives the process, so that
//! nothing is synced. The file has a fixed size and is overwritten in place, which works on a full disk too.

use super::{persistence::unavailable, warning::WriteWarning};
use crawlway_store::{RateLimiterError, Timestamp, rate_limiter::rules::CLOCK_TOLERANCE};
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

/// How far the watermark is raised beyond what is needed.
pub(super) const LEAD: Duration = Duration::from_secs(1);

/// Maximum number of permits between two writes.
const ID_LEAD: u64 = 1 << 30;

/// Upper bounds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Latest start of a request.
    pub(super) max_start: Timestamp,
    /// Latest end of a request or of its lease.
    pub(super) max_end: Timestamp,
    /// Greatest id of a permit.
    pub(super) max_id: u64,
}

/// Content of the file at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// There is no file.
    Missing,
    /// The file is corrupt, so that the earlier process may have ended just now.
    Corrupt,
    Bounds(Bounds),
}

#[derive(Debug)]
pub(super) struct Watermark {
    path: PathBuf,
    file: Mutex<(File, WriteWarning)>,
    /// `max_end` in the file, in milliseconds.
    written: AtomicU64,
    lease: Duration,
}

impl Watermark {
    pub(super) fn open(directory: &Path, lease: Duration) -> Result<(Self, Stored), RateLimiterError> {
        let path = directory.join(FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| unavailable("open", &path, &error))?;
        let mut bytes = Vec::new();
        let max = LENGTH as u64 + 1;
        (&mut file).take(max).read_to_end(&mut bytes).map_err(|error| unavailable("read", &path, &error))?;
        let stored = match bytes.as_slice() {
            [] => Stored::Missing,
            bytes => read(bytes).map_or(Stored::Corrupt, Stored::Bounds),
        };
        let file = Mutex::new((file, WriteWarning::default()));
        Ok((Self { path, file, written: AtomicU64::new(0), lease }, stored))
    }

    /// Raises the watermark above the end of a permit, before the permit is handed out.
    pub(super) fn cover(&self, until: Timestamp, id: u64) {
        if self.is_covered(until) {
            return;
        }
        let mut file = self.file.lock();
        if self.is_covered(until) {
            return;
        }
        let max_end = until + LEAD;
        let bounds = Bounds { max_start: max_end - self.lease, max_end, max_id: id.saturating_add(ID_LEAD) };
        self.write(&mut file, bounds);
        // Also after a failed write: a retry for every permit would slow down all requests.
        self.written.store(max_end.as_millis(), Ordering::Release);
    }

    /// Writes exact bounds, when no further request will be sent.
    pub(super) fn write_exact(&self, bounds: Bounds) {
        let mut file = self.file.lock();
        self.write(&mut file, bounds);
        self.written.store(0, Ordering::Release);
    }

    /// A watermark far ahead, left by a clock that was set back, is lowered too.
    fn is_covered(&self, until: Timestamp) -> bool {
        let written = Timestamp::from_millis(self.written.load(Ordering::Acquire));
        until <= written && written <= until + LEAD + CLOCK_TOLERANCE
    }

    fn write(&self, (file, warning): &mut (File, WriteWarning), bounds: Bounds) {
        if let Err(error) = write(file, bounds) {
            warning.log(&self.path, &error);
        }
    }
}

fn write(file: &mut File, Bounds { max_start, max_end, max_id }: Bounds) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend_from_slice(&MAGIC);
    for number in [max_start.as_millis(), max_end.as_millis(), max_id] {
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
        max_start: Timestamp::from_millis(number(0)?),
        max_end: Timestamp::from_millis(number(1)?),
        max_id: number(2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(60);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn opened(directory: &Path) -> (Watermark, Stored) {
        Watermark::open(directory, LEASE).expect("the file opens")
    }

    #[test]
    fn a_busy_limiter_writes_once_a_second_and_in_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (watermark, stored) = opened(folder.path());
        assert_eq!(stored, Stored::Missing);
        let mut writes = 0;
        let mut before = Stored::Missing;
        for now in (1_000_000..1_010_000).step_by(10) {
            let until = at(now) + LEASE;
            watermark.cover(until, now);
            let (_, stored) = opened(folder.path());
            let Stored::Bounds(Bounds { max_start, max_end, max_id }) = stored else {
                panic!("{stored:?} at {now}")
            };
            assert!(max_end >= until && max_end <= until + LEAD, "{max_end:?} at {now}");
            assert!(max_start >= at(now) && max_start <= at(now) + LEAD && max_id > now);
            writes += u32::from(std::mem::replace(&mut before, stored) != stored);
        }
        assert!(writes <= 11, "{writes} writes in 10 s");
    }

    #[test]
    fn a_clock_set_back_lowers_the_watermark() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (watermark, _) = opened(folder.path());
        watermark.cover(at(10_000_000), 1);
        watermark.cover(at(5_000_000), 2);
        let (_, stored) = opened(folder.path());
        assert!(
            matches!(stored, Stored::Bounds(bounds) if bounds.max_end == at(5_000_000) + LEAD),
            "{stored:?}"
        );
    }

    #[test]
    fn corruption_of_any_byte_is_detected() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bounds = Bounds { max_start: at(1), max_end: at(2), max_id: 3 };
        let (watermark, _) = opened(folder.path());
        watermark.write_exact(bounds);
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
