//! The book of trouble: which groups blocked us and for how long, as lines in a file that is read at the next start.
//!
//! A line is the checksum of what follows in hexadecimal, a space, and JSON: the group, and its trouble or `null`
//! when that is over. The last line of a group counts. A line that is torn or damaged is passed over. The file is
//! written anew without what is over at each start, and whenever it has become twice as long.

use super::{complaint::Complaint, life::unavailable, trouble::Note};
use crawlway_store::{GateError, Group, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const FILE: &str = "trouble";
const FILE_TO_BE: &str = "trouble.new";

/// A shorter file is not worth writing anew.
const SHORT: usize = 1_000;

/// How long after a failure all is tried again, at least.
const TRY_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Book {
    directory: PathBuf,
    file: Option<File>,
    /// The last line of each group in trouble.
    notes: HashMap<Group, Note>,
    lines: usize,
    longest: usize,
    /// Since when the file lacks something that could not be written.
    behind: Option<Instant>,
    complaint: Complaint,
    grudge: Duration,
}

#[derive(Serialize, Deserialize)]
struct Line {
    group: Group,
    trouble: Option<Note>,
}

impl Book {
    /// Reads the book. What is over by now, grudge included, is left out.
    pub(super) fn open(directory: &Path, now: Timestamp, grudge: Duration) -> Result<Self, GateError> {
        let path = directory.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unavailable("read", &path, &error)),
        };
        let mut notes = HashMap::new();
        let mut unreadable = 0_usize;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match read(line) {
                Some(Line { group, trouble: Some(note) }) => drop(notes.insert(group, note)),
                Some(Line { group, trouble: None }) => drop(notes.remove(&group)),
                None => unreadable += 1,
            }
        }
        if unreadable > 0 {
            tracing::warn!(
                file = %path.display(),
                lines = unreadable,
                "some of what the gate remembers of groups that blocked us is unreadable; passed over"
            );
        }
        let mut book = Self {
            directory: directory.to_owned(),
            file: None,
            notes,
            lines: 0,
            longest: SHORT,
            behind: None,
            complaint: Complaint::default(),
            grudge,
        };
        book.write_anew(now, true);
        if book.file.is_none() {
            // What is there stays as it is, and what comes is added where that can be done.
            book.file = OpenOptions::new().append(true).create(true).open(&path).ok();
        }
        Ok(book)
    }

    /// The groups that are in trouble.
    pub(super) fn notes(&self) -> impl Iterator<Item = (&Group, &Note)> {
        self.notes.iter()
    }

    /// Writes down how it stands with a group.
    pub(super) fn write(&mut self, group: &Group, note: Option<Note>, now: Timestamp) {
        match note {
            Some(note) => drop(self.notes.insert(group.clone(), note)),
            None => drop(self.notes.remove(group)),
        }
        match self.behind {
            Some(since) if since.elapsed() < TRY_AGAIN => {}
            Some(_) => self.write_anew(now, false),
            None if self.lines >= self.longest => self.write_anew(now, false),
            None => self.add(group, note),
        }
    }

    /// Makes up for what could not be written, if there is something.
    pub(super) fn close(&mut self, now: Timestamp) {
        if self.behind.is_some() {
            self.write_anew(now, false);
        }
    }

    fn add(&mut self, group: &Group, note: Option<Note>) {
        self.lines += 1;
        let line = line(group, note);
        let added = self
            .file
            .as_mut()
            .map_or_else(|| Err(io::ErrorKind::NotFound.into()), |file| file.write_all(&line));
        if let Err(error) = added {
            self.failed(&error);
        }
    }

    /// Only a power cut needs the sync, and it may cost a busy gate more than the trouble of the last seconds.
    fn write_anew(&mut self, now: Timestamp, sync: bool) {
        self.notes.retain(|_, note| !note.is_over(now, self.grudge));
        match self.replace(sync) {
            Ok(file) => {
                self.file = Some(file);
                self.lines = self.notes.len();
                self.longest = SHORT.max(2 * self.lines);
                self.behind = None;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn replace(&self, sync: bool) -> io::Result<File> {
        let path = self.directory.join(FILE_TO_BE);
        let mut file = BufWriter::new(File::create(&path)?);
        for (group, note) in &self.notes {
            file.write_all(&line(group, Some(*note)))?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if sync {
            file.sync_data()?;
        }
        fs::rename(&path, self.directory.join(FILE))?;
        Ok(file)
    }

    /// The file may end in half a line now, so nothing is added to it until it was written anew.
    fn failed(&mut self, error: &io::Error) {
        self.behind = Some(Instant::now());
        self.complaint.about(&self.directory.join(FILE), error);
    }
}

fn line(group: &Group, note: Option<Note>) -> Vec<u8> {
    let json = serde_json::to_string(&Line { group: group.clone(), trouble: note }).unwrap_or_default();
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

fn read(line: &[u8]) -> Option<Line> {
    let (checksum, json) = line.split_at_checked(8)?;
    let json = json.strip_prefix(b" ")?;
    let checksum = u32::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    (checksum == crc32fast::hash(json)).then(|| serde_json::from_slice(json).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRUDGE: Duration = Duration::from_secs(600);
    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000);

    fn opened(directory: &Path) -> Book {
        Book::open(directory, NOW, GRUDGE).expect("the book opens")
    }

    fn group(number: usize) -> Group {
        Group::new(&format!("host \"{number}\".example")).expect("a name")
    }

    fn note(blocks: u32) -> Note {
        Note { blocks, since: NOW, until: NOW + Duration::from_secs(5), openings: 0 }
    }

    #[test]
    fn what_is_written_is_read_and_what_is_over_is_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut book = opened(folder.path());
        for number in 0..10 {
            book.write(&group(number), Some(note(1)), NOW);
        }
        book.write(&group(3), None, NOW);
        book.write(&group(4), Some(note(7)), NOW);
        drop(book);
        let book = opened(folder.path());
        assert_eq!(book.notes.len(), 9);
        assert_eq!(book.notes.get(&group(3)), None);
        assert_eq!(book.notes.get(&group(4)), Some(&note(7)));
        let later = NOW + Duration::from_secs(5) + GRUDGE;
        let book = Book::open(folder.path(), later, GRUDGE).expect("the book opens");
        assert!(book.notes.is_empty());
        assert_eq!(fs::read(folder.path().join(FILE)).expect("the file"), b"");
    }

    #[test]
    fn a_cut_anywhere_costs_one_line_at_most() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut book = opened(folder.path());
        for number in 0..3 {
            book.write(&group(number), Some(note(1)), NOW);
        }
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).expect("the file");
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).expect("a cut file");
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let found = opened(folder.path()).notes.len();
            assert!(found == lines || found == lines + 1, "{found} of {lines} lines, cut at {cut}");
        }
    }

    #[test]
    fn garbage_is_passed_over_and_gone_after_the_next_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut book = opened(folder.path());
        book.write(&group(1), Some(note(2)), NOW);
        let path = folder.path().join(FILE);
        let good = fs::read(&path).expect("the file");
        let flipped: Vec<u8> = good.iter().map(|byte| if *byte == b'2' { b'3' } else { *byte }).collect();
        let bad: [&[u8]; 5] =
            [b"\xff\xfe\0\n", b"00000000 {}\n\n\n", b"a\n", b"0123456\xc3\xa9 x\n", &flipped];
        fs::write(&path, [&bad.concat(), good.as_slice()].concat()).expect("garbage");
        let book = opened(folder.path());
        assert_eq!(book.notes.get(&group(1)), Some(&note(2)));
        assert_eq!(fs::read(&path).expect("the file"), good);
    }

    #[test]
    fn it_grows_with_what_is_in_trouble_and_not_with_what_happens() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut book = opened(folder.path());
        for blocks in 0..20_000 {
            book.write(&group(1), Some(note(blocks)), NOW);
        }
        let length = fs::metadata(folder.path().join(FILE)).expect("the file").len();
        assert!(length < 150 * SHORT as u64, "{length} bytes");
        assert_eq!(opened(folder.path()).notes.get(&group(1)), Some(&note(19_999)));
    }

    #[test]
    fn what_could_not_be_written_is_made_up_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut book = opened(folder.path());
        // A folder in the way stops both ways of writing, for whichever user the test runs as.
        let in_the_way = folder.path().join(FILE_TO_BE);
        fs::create_dir(&in_the_way).expect("a folder");
        book.file = None;
        book.write(&group(1), Some(note(1)), NOW);
        book.write(&group(2), Some(note(2)), NOW);
        assert!(book.behind.is_some());
        fs::remove_dir(&in_the_way).expect("removed");
        book.close(NOW);
        assert!(book.behind.is_none());
        assert_eq!(opened(folder.path()).notes.len(), 2);
    }
}
