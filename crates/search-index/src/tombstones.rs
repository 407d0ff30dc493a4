//! Tombstones of removed URLs, in a file beside the index, so that an older version of a page does not come back.
//!
//! ```text
//! magic (8 bytes) | key (16 bytes), time (8 bytes, little-endian milliseconds) | key, time | …
//! ```
//!
//! The file is append-only; the latest time of a key counts. Compaction rewrites it without tombstones past their retention:
//! when it has doubled, and with the first removal after it was opened with expired or torn records. Opening writes nothing,
//! since a full disk must not prevent searches.

use crate::error::OpenError;
use crawlway_store::{
    Timestamp,
    pages::precedence::{TOMBSTONE_RETENTION, revives},
};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

const FILE: &str = "tombstones";
const MAGIC: &[u8; 8] = b"cwtomb01";
const RECORD: usize = 24;

/// Maximum number of tombstones, about 50 MB in memory; beyond it the oldest are dropped.
const MAX_TOMBSTONES: usize = 1_000_000;

/// Number of records below which the file is not compacted.
const MIN_COMPACTION: usize = 10_000;

/// The first 128 bits of the SHA-256 of a URL.
type Key = [u8; 16];

#[derive(Debug)]
pub(crate) struct Tombstones {
    path: PathBuf,
    /// None if it has to be compacted before the next append.
    file: Option<File>,
    times: HashMap<Key, Timestamp>,
    /// Records in the file.
    written: usize,
    /// Number of records at which the file is compacted.
    full: usize,
}

impl Tombstones {
    /// Reads the tombstones of a directory; the file may be missing.
    pub(crate) fn open(directory: &Path, now: Timestamp) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(OpenError::io("read", &path, error)),
        };
        // A kill at the first write may have left a part of the magic.
        let Some(records) = bytes.strip_prefix(MAGIC).or(MAGIC.starts_with(&bytes).then_some(&[])) else {
            let detail = format!("{FILE} does not begin with `{}`", MAGIC.escape_ascii());
            return Err(OpenError::Damaged { directory: directory.to_owned(), detail });
        };
        let mut times: HashMap<Key, Timestamp> = HashMap::new();
        // A torn record at the end is ignored.
        for record in records.chunks_exact(RECORD) {
            let (key, time) = parsed(record);
            let latest = times.entry(key).or_insert(time);
            *latest = time.max(*latest);
        }
        sweep(&mut times, now);
        let is_whole = bytes.len() == MAGIC.len() + times.len() * RECORD;
        let opened = is_whole.then(|| OpenOptions::new().append(true).open(&path)).transpose();
        let file = opened.map_err(|error| OpenError::io("open", &path, error))?;
        let written = times.len();
        Ok(Self { path, file, times, written, full: full(written) })
    }

    /// Whether a tombstone rejects a page of this URL crawled at this time.
    pub(crate) fn rejects(&self, url: &str, crawled_at: Timestamp) -> bool {
        !self.times.is_empty() && self.times.get(&key(url)).is_some_and(|time| !revives(crawled_at, *time))
    }

    /// Adds tombstones. They survive a crash of the process, and with `sync` a power loss.
    pub(crate) fn add<'a>(
        &mut self,
        removed: impl IntoIterator<Item = (&'a str, Timestamp)>,
        now: Timestamp,
        sync: bool,
    ) -> io::Result<()> {
        let mut records = Vec::new();
        for (url, time) in removed {
            let key = key(url);
            if self.times.get(&key).is_none_or(|known| *known < time) {
                self.times.insert(key, time);
                append(&mut records, &key, time);
            }
        }
        self.written += records.len() / RECORD;
        // A failure may leave a torn record, so the file is put back only after a success.
        match self.file.take().filter(|_| self.written < self.full) {
            Some(mut file) => {
                file.write_all(&records)?;
                if sync && !records.is_empty() {
                    file.sync_data()?;
                }
                self.file = Some(file);
            }
            None => {
                sweep(&mut self.times, now);
                self.file = Some(compacted(&self.path, &self.times)?);
                self.written = self.times.len();
                self.full = full(self.written);
            }
        }
        Ok(())
    }
}

fn key(url: &str) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&Sha256::digest(url.as_bytes())[..16]);
    key
}

fn full(written: usize) -> usize {
    written.saturating_mul(2).max(MIN_COMPACTION)
}

fn append(records: &mut Vec<u8>, key: &Key, time: Timestamp) {
    records.extend_from_slice(key);
    records.extend_from_slice(&time.as_millis().to_le_bytes());
}

fn parsed(record: &[u8]) -> (Key, Timestamp) {
    let (mut key, mut time) = (Key::default(), [0; 8]);
    key.copy_from_slice(&record[..16]);
    time.copy_from_slice(&record[16..RECORD]);
    (key, Timestamp::from_millis(u64::from_le_bytes(time)))
}

/// Drops tombstones past their retention, and the oldest of too many.
fn sweep(times: &mut HashMap<Key, Timestamp>, now: Timestamp) {
    times.retain(|_, time| now.since(*time) <= TOMBSTONE_RETENTION);
    if times.len() > MAX_TOMBSTONES {
        let mut by_age: Vec<(Timestamp, Key)> = times.iter().map(|(key, time)| (*time, *key)).collect();
        let dropped = by_age.len() - MAX_TOMBSTONES;
        let (oldest, _, _) = by_age.select_nth_unstable(dropped);
        for (_, key) in oldest {
            times.remove(key);
        }
    }
}

/// Replaces the file with one of these tombstones, and leaves it open at its end.
fn compacted(path: &Path, times: &HashMap<Key, Timestamp>) -> io::Result<File> {
    let mut bytes = MAGIC.to_vec();
    times.iter().for_each(|(key, time)| append(&mut bytes, key, *time));
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn time(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn tombstones_are_read_back_and_swept_after_their_retention() {
        let directory = tempfile::tempdir().unwrap();
        let open = |now| Tombstones::open(directory.path(), now).unwrap();
        let mut stones = open(time(0));
        stones.add([("a", time(10)), ("b", time(20)), ("a", time(5))], time(20), true).unwrap();
        assert!(stones.rejects("a", time(10)) && !stones.rejects("a", time(11)));
        drop(stones);
        // A torn record, as after a kill.
        let path = directory.path().join(FILE);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&[7; 5]);
        fs::write(&path, &bytes).unwrap();
        let stones = open(time(30));
        assert!(stones.rejects("a", time(10)) && stones.rejects("b", time(20)) && stones.times.len() == 2);
        let later = time(11) + TOMBSTONE_RETENTION;
        let stones = open(later);
        assert!(!stones.rejects("a", time(1)) && stones.rejects("b", time(20)), "one is past its retention");
        assert_eq!(fs::read(&path).unwrap().len(), bytes.len(), "opening writes nothing");
        let mut stones = stones;
        stones.add([("b", time(30))], later, false).unwrap();
        assert_eq!(
            fs::read(&path).unwrap().len(),
            MAGIC.len() + RECORD,
            "the next removal compacts the file"
        );
        fs::write(&path, "another file").unwrap();
        let refused = Tombstones::open(directory.path(), later).unwrap_err().to_string();
        assert!(refused.contains("tombstones") && refused.contains("damaged"), "{refused}");
    }

    #[test]
    fn the_file_does_not_grow_with_removals_of_the_same_urls() {
        let directory = tempfile::tempdir().unwrap();
        let mut stones = Tombstones::open(directory.path(), time(0)).unwrap();
        for round in 0..50_u64 {
            let urls: Vec<String> = (0..1_000).map(|number| format!("https://a.example/{number}")).collect();
            stones.add(urls.iter().map(|url| (url.as_str(), time(round))), time(round), false).unwrap();
        }
        let length = fs::metadata(directory.path().join(FILE)).unwrap().len();
        assert!(length <= (MIN_COMPACTION * RECORD + MAGIC.len()) as u64, "{length} bytes for 1,000 URLs");
        drop(stones);
        let stones = Tombstones::open(directory.path(), time(60) + Duration::from_secs(1)).unwrap();
        assert!(stones.rejects("https://a.example/999", time(49)));
    }
}
