//! Failure log: the failures of groups as lines in an append-only file, read at the next start.
//!
//! A line is the checksum of the rest in hexadecimal, a space, and JSON: the group, and its failures or `null` when they
//! are over. The last line of a group counts. Torn or corrupt lines are skipped. The file is compacted at each start and
//! whenever its length has doubled.

use super::{persistence::unavailable, warning::WriteWarning};
use crawlway_store::{Group, RateLimiterError, Timestamp, rate_limiter::rules::FailureRecord};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const FILE: &str = "trouble";
const NEW_FILE: &str = "trouble.new";

/// Minimum number of lines before a compaction.
const MIN_COMPACTION_LINES: usize = 1_000;

/// Minimum delay after a failed write.
const RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct FailureLog {
    directory: PathBuf,
    file: Option<File>,
    /// The last line of each group with failures.
    records: HashMap<Group, FailureRecord>,
    lines: usize,
    max_lines: usize,
    /// Time of the last failed write, while the file is incomplete.
    incomplete_since: Option<Instant>,
    warning: WriteWarning,
    ttl: Duration,
}

#[derive(Serialize, Deserialize)]
struct Line {
    group: Group,
    #[serde(rename = "trouble")]
    failures: Option<FailureRecord>,
}

impl FailureLog {
    /// Opens and compacts the log. Failures that ended more than the TTL ago are dropped.
    pub(super) fn open(directory: &Path, now: Timestamp, ttl: Duration) -> Result<Self, RateLimiterError> {
        let path = directory.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unavailable("read", &path, &error)),
        };
        let mut records = HashMap::new();
        let mut corrupt = 0_usize;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match parse(line) {
                Some(Line { group, failures: Some(record) }) => drop(records.insert(group, record)),
                Some(Line { group, failures: None }) => drop(records.remove(&group)),
                None => corrupt += 1,
            }
        }
        if corrupt > 0 {
            tracing::warn!(
                file = %path.display(),
                lines = corrupt,
                "the failure log of the rate limiter has corrupt lines, which are skipped"
            );
        }
        let mut log = Self {
            directory: directory.to_owned(),
            file: None,
            records,
            lines: 0,
            max_lines: MIN_COMPACTION_LINES,
            incomplete_since: None,
            warning: WriteWarning::default(),
            ttl,
        };
        log.compact(now, true);
        if log.file.is_none() {
            // Compaction failed: append to the old file if possible.
            log.file = OpenOptions::new().append(true).create(true).open(&path).ok();
        }
        Ok(log)
    }

    /// Groups with failures.
    pub(super) fn records(&self) -> impl Iterator<Item = (&Group, &FailureRecord)> {
        self.records.iter()
    }

    /// Records the failures of a group.
    pub(super) fn write(&mut self, group: &Group, record: Option<FailureRecord>, now: Timestamp) {
        match record {
            Some(record) => drop(self.records.insert(group.clone(), record)),
            None => drop(self.records.remove(group)),
        }
        match self.incomplete_since {
            Some(since) if since.elapsed() < RETRY_DELAY => {}
            Some(_) => self.compact(now, false),
            None if self.lines >= self.max_lines => self.compact(now, false),
            None => self.append(group, record),
        }
    }

    /// Rewrites the file if it is incomplete.
    pub(super) fn close(&mut self, now: Timestamp) {
        if self.incomplete_since.is_some() {
            self.compact(now, false);
        }
    }

    fn append(&mut self, group: &Group, record: Option<FailureRecord>) {
        self.lines += 1;
        let line = line(group, record);
        let appended = self
            .file
            .as_mut()
            .map_or_else(|| Err(io::ErrorKind::NotFound.into()), |file| file.write_all(&line));
        if let Err(error) = appended {
            self.failed(&error);
        }
    }

    /// Replaces the file by one with the current records. A sync protects against a power cut only, and is too expensive
    /// for a busy limiter, so that it is limited to the start.
    fn compact(&mut self, now: Timestamp, sync: bool) {
        self.records.retain(|_, record| !record.is_expired(now, self.ttl));
        match self.replace(sync) {
            Ok(file) => {
                self.file = Some(file);
                self.lines = self.records.len();
                self.max_lines = MIN_COMPACTION_LINES.max(2 * self.lines);
                self.incomplete_since = None;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn replace(&self, sync: bool) -> io::Result<File> {
        let path = self.directory.join(NEW_FILE);
        let mut file = BufWriter::new(File::create(&path)?);
        for (group, record) in &self.records {
            file.write_all(&line(group, Some(*record)))?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if sync {
            file.sync_data()?;
        }
        fs::rename(&path, self.directory.join(FILE))?;
        Ok(file)
    }

    /// Stops appending until the next compaction, since the file may end in a torn line.
    fn failed(&mut self, error: &io::Error) {
        self.incomplete_since = Some(Instant::now());
        self.warning.log(&self.directory.join(FILE), error);
    }
}

fn line(group: &Group, failures: Option<FailureRecord>) -> Vec<u8> {
    let json = serde_json::to_string(&Line { group: group.clone(), failures }).unwrap_or_default();
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

fn parse(line: &[u8]) -> Option<Line> {
    let (checksum, json) = line.split_at_checked(8)?;
    let json = json.strip_prefix(b" ")?;
    let checksum = u32::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    (checksum == crc32fast::hash(json)).then(|| serde_json::from_slice(json).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(600);
    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn opened(directory: &Path) -> FailureLog {
        FailureLog::open(directory, NOW, TTL).expect("the log opens")
    }

    fn group(number: usize) -> Group {
        Group::new(&format!("host \"{number}\".example")).expect("a name")
    }

    fn record(blocks: u32) -> FailureRecord {
        FailureRecord { blocks, since: NOW, until: NOW + Duration::from_secs(5), openings: 0 }
    }

    #[test]
    fn a_truncated_file_loses_one_line_at_most() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut log = opened(folder.path());
        for number in 0..3 {
            log.write(&group(number), Some(record(1)), NOW);
        }
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).expect("the file");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("a cut file");
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let read = opened(folder.path()).records.len();
            assert!(read == lines || read == lines + 1, "{read} of {lines} lines, cut at {cut}");
        }
    }

    #[test]
    fn corrupt_lines_are_skipped_and_gone_after_the_next_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut log = opened(folder.path());
        log.write(&group(1), Some(record(2)), NOW);
        let path = folder.path().join(FILE);
        let good = fs::read(&path).expect("the file");
        let flipped: Vec<u8> = good.iter().map(|byte| if *byte == b'2' { b'3' } else { *byte }).collect();
        let bad: [&[u8]; 5] =
            [b"\xff\xfe\0\n", b"00000000 {}\n\n\n", b"a\n", b"0123456\xc3\xa9 x\n", &flipped];
        fs::write(&path, [&bad.concat(), good.as_slice()].concat()).expect("garbage");
        let log = opened(folder.path());
        assert_eq!(log.records.get(&group(1)), Some(&record(2)));
        assert_eq!(fs::read(&path).expect("the file"), good);
    }

    #[test]
    fn its_size_grows_with_the_groups_and_not_with_the_writes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut log = opened(folder.path());
        for blocks in 0..20_000 {
            log.write(&group(1), Some(record(blocks)), NOW);
        }
        let length = fs::metadata(folder.path().join(FILE)).expect("the file").len();
        assert!(length < 150 * MIN_COMPACTION_LINES as u64, "{length} bytes");
        assert_eq!(opened(folder.path()).records.get(&group(1)), Some(&record(19_999)));
    }

    #[test]
    fn failed_writes_are_made_up_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut log = opened(folder.path());
        // A folder in its place makes every write fail, whatever the user.
        let obstacle = folder.path().join(NEW_FILE);
        fs::create_dir(&obstacle).expect("a folder");
        log.file = None;
        log.write(&group(1), Some(record(1)), NOW);
        log.write(&group(2), Some(record(2)), NOW);
        assert!(log.incomplete_since.is_some());
        fs::remove_dir(&obstacle).expect("removed");
        log.close(NOW);
        assert!(log.incomplete_since.is_none());
        assert_eq!(opened(folder.path()).records.len(), 2);
    }
}
