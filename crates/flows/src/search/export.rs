//! The stage `export`: writes crawled pages to a JSON Lines file instead of the index.

use super::message::{self, CheckedPage, Metadata, PageMessage};
use crawlway_broker::Delivery;
use crawlway_clock::Timestamp;
use crawlway_flow::{Context, Invalid, Item, Output, Stage, StageError};
use parking_lot::Mutex;
use serde::Deserialize;
use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    fs::{File, OpenOptions, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Prefix of every line.
const LINE_PREFIX: &[u8] = b"{\"url\":\"";

/// Reason why a file cannot be opened for export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// I/O error.
    #[error("cannot open `{path}`: {error}")]
    Io {
        /// The file.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Another process writes to it.
    #[error("`{path}` is being written by another process; name another file, or wait for that one")]
    InUse {
        /// The file.
        path: String,
    },
    /// The file has other content.
    #[error("line {line} of `{path}` is not a crawled page; name another file, or move this one away")]
    Foreign {
        /// The file.
        path: String,
        /// The line, from 1.
        line: u64,
    },
}

/// Append-only file of page messages, one per line. Idempotent: a page is written once, and once more each time it was due
/// for a re-crawl.
pub struct Export {
    name: String,
    written: Mutex<Written>,
    closed: AtomicBool,
}

struct Written {
    sink: Sink,
    /// Crawl time of each page, by the hash of its URL.
    pages: HashMap<u128, Timestamp>,
    /// Age from which on a page is written again.
    again_after: Duration,
}

enum Sink {
    File(File),
    /// Pipe or terminal: neither readable nor truncatable.
    Stream(Box<dyn Write + Send>),
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Export {
    /// Opens or creates a file for appending, and removes an incomplete last line. A page in it is written again only if it
    /// was crawled at least `again_after` later.
    pub fn open(path: &Path, again_after: Duration) -> Result<Self, ExportError> {
        let name = path.display().to_string();
        let failed = |error| ExportError::Io { path: name.clone(), error };
        let options = || OpenOptions::new().write(true).create(true).truncate(false).clone();
        let is_file = path.metadata().map_or(true, |found| found.is_file());
        if !is_file {
            let stream = options().open(path).map_err(failed)?;
            return Ok(Self::to_stream(&name, Box::new(stream), again_after));
        }
        let mut file = options().read(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ExportError::InUse { path: name }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let (pages, whole) = read(&file, &name)?;
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Self::new(name, Sink::File(file), pages, again_after))
    }

    /// Export to a stream, such as a pipe.
    pub fn to_stream(name: &str, stream: Box<dyn Write + Send>, again_after: Duration) -> Self {
        Self::new(name.to_owned(), Sink::Stream(stream), HashMap::new(), again_after)
    }

    fn new(name: String, sink: Sink, pages: HashMap<u128, Timestamp>, again_after: Duration) -> Self {
        let written = Mutex::new(Written { sink, pages, again_after });
        Self { name, written, closed: AtomicBool::new(false) }
    }

    /// Whether this page was written, as far as is known.
    pub fn has(&self, url: &str) -> bool {
        self.written.lock().pages.contains_key(&key(url))
    }

    /// Whether the reader has closed the pipe.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Appends pages atomically and syncs them. Returns for each whether it was written now, or before.
    fn add(&self, pages: Vec<CheckedPage>) -> io::Result<Vec<bool>> {
        let mut written = self.written.lock();
        let (mut lines, mut fresh, mut added) = (Vec::new(), Vec::new(), HashMap::new());
        for page in pages {
            let (key, at) = (key(page.url.as_str()), page.crawled_at);
            let previous = added.get(&key).or_else(|| written.pages.get(&key));
            let repeated =
                previous.is_some_and(|previous| at <= *previous || at.since(*previous) < written.again_after);
            if !repeated {
                write_line(&mut lines, page)?;
                added.insert(key, at);
            }
            fresh.push(!repeated);
        }
        if let Err(error) = written.sink.write(&lines) {
            if error.kind() == io::ErrorKind::BrokenPipe {
                self.closed.store(true, Ordering::Relaxed);
            }
            return Err(error);
        }
        written.pages.extend(added);
        Ok(fresh)
    }
}

impl Sink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        match self {
            Self::File(file) => {
                let before = file.stream_position()?;
                let added = file.write_all(lines).and_then(|()| file.sync_data());
                if added.is_err() {
                    // An incomplete line would corrupt the next one.
                    let _ = file.set_len(before);
                    let _ = file.seek(SeekFrom::Start(before));
                }
                added
            }
            Self::Stream(stream) => stream.write_all(lines).and_then(|()| stream.flush()),
        }
    }
}

/// Fields of a line that identify the page.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    metadata: LineMetadata<'a>,
}

#[derive(Deserialize)]
struct LineMetadata<'a> {
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
}

/// Pages of a file, and the end of its last complete line.
fn read(file: &File, name: &str) -> Result<(HashMap<u128, Timestamp>, u64), ExportError> {
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut pages, mut whole, mut line) = (HashMap::new(), 0, Vec::new());
    for number in 1.. {
        line.clear();
        let length = reader
            .read_until(b'\n', &mut line)
            .map_err(|error| ExportError::Io { path: name.to_owned(), error })?;
        let foreign = || ExportError::Foreign { path: name.to_owned(), line: number };
        if line.last() != Some(&b'\n') {
            // The end of the file, or a line that a crash cut off. Other content is not removed.
            let is_page = line.iter().zip(LINE_PREFIX).all(|(octet, expected)| octet == expected);
            return if is_page { Ok((pages, whole)) } else { Err(foreign()) };
        }
        let page: Line<'_> = serde_json::from_slice(&line).map_err(|_| foreign())?;
        let at = Timestamp::from_iso(&page.metadata.timestamp).ok_or_else(foreign)?;
        let latest = pages.entry(key(&page.url)).or_insert(at);
        *latest = at.max(*latest);
        whole += length as u64;
    }
    Ok((pages, whole))
}

/// 128-bit hash of a URL, which takes less memory and has no collisions in practice.
fn key(url: &str) -> u128 {
    let hash = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, url).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    hash(0) << 64 | hash(1)
}

fn write_line(lines: &mut Vec<u8>, page: CheckedPage) -> io::Result<()> {
    let message = PageMessage {
        url: page.url.into_string(),
        // The readable text; other programs use the queue.
        text: page.original_text.unwrap_or(page.text),
        original_text: None,
        metadata: Metadata {
            title: page.title,
            description: page.description,
            timestamp: page.crawled_at.to_iso(),
            status_code: i64::from(page.status_code),
        },
        truncated: page.truncated,
    };
    // JSON escapes line breaks.
    serde_json::to_writer(&mut *lines, &message)?;
    lines.push(b'\n');
    Ok(())
}

/// The stage `export`.
#[derive(Debug)]
pub(super) struct ExportStage {
    export: Arc<Export>,
    max_message_bytes: usize,
}

impl ExportStage {
    pub(super) fn new(export: Arc<Export>, max_message_bytes: usize) -> Self {
        Self { export, max_message_bytes }
    }
}

#[async_trait::async_trait]
impl Stage for ExportStage {
    type In = CheckedPage;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        "export"
    }

    fn decode(&self, delivery: &Delivery) -> Result<CheckedPage, Invalid> {
        message::read(&delivery.message.body, self.max_message_bytes)
    }

    fn subject(&self, page: &CheckedPage) -> Option<String> {
        Some(page.url.as_str().to_owned())
    }

    async fn run(
        &self,
        batch: Vec<Item<CheckedPage>>,
        _context: &Context,
    ) -> Vec<Result<Output<(), ()>, StageError>> {
        let count = batch.len();
        let export = self.export.clone();
        let pages = batch.into_iter().map(|item| item.value).collect();
        let written = tokio::task::spawn_blocking(move || export.add(pages)).await;
        let error = match written {
            Ok(Ok(fresh)) => {
                let outcome = |fresh| if fresh { "exported" } else { "repeated" };
                return fresh.into_iter().map(|fresh| Ok(Output::empty(outcome(fresh)))).collect();
            }
            Ok(Err(error)) => format!("cannot write to `{}`: {error}", self.export.name),
            Err(error) => error.to_string(),
        };
        (0..count).map(|_| Err(StageError::Unavailable { error: error.clone() })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn page(path: &str, at: u64) -> CheckedPage {
        let url = format!("http://a.test/{path}");
        let body = serde_json::json!({ "url": url, "text": "a\nb", "metadata": {
            "title": "t", "timestamp": Timestamp::from_millis(at).to_iso(), "status_code": 200 } });
        message::read(body.to_string().as_bytes(), 1 << 20).unwrap()
    }

    fn paths(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let url = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["url"].clone();
        text.lines().map(|line| url(line).as_str().unwrap().replace("http://a.test/", "")).collect()
    }

    #[test]
    fn a_page_is_not_written_again_until_it_is_due() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pages.jsonl");
        let export = Export::open(&file, DAY).unwrap();
        let added = export.add(vec![page("1", 1_000), page("2", 1_000), page("1", 1_000)]).unwrap();
        assert_eq!(added, [true, true, false]);
        assert!(matches!(Export::open(&file, DAY), Err(ExportError::InUse { .. })), "one process at a time");
        drop(export);
        // After a crash: the message is redelivered, or the page was fetched again before it was due.
        for at in [1_000, 2_000, 86_400_000] {
            let export = Export::open(&file, DAY).unwrap();
            assert_eq!(export.add(vec![page("2", at), page("1", at)]).unwrap(), [false, false], "{at}");
        }
        let export = Export::open(&file, DAY).unwrap();
        assert_eq!(export.add(vec![page("2", 86_401_000), page("3", 86_401_000)]).unwrap(), [true, true]);
        assert_eq!(paths(&file), ["1", "2", "2", "3"]);
    }

    #[test]
    fn an_incomplete_last_line_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pages.jsonl");
        Export::open(&file, DAY).unwrap().add(vec![page("1", 1), page("2", 1)]).unwrap();
        let whole = fs::read(&file).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in [0, 1, 5, first - 1, first, first + 1, whole.len() - 1] {
            fs::write(&file, &whole[..cut]).unwrap();
            Export::open(&file, DAY).unwrap().add(vec![page("1", 1), page("2", 1)]).unwrap();
            let mut found = paths(&file);
            found.sort();
            assert_eq!(found, ["1", "2"], "cut after {cut} bytes");
        }
    }

    #[test]
    fn a_file_with_other_content_is_left_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("notes.txt");
        for (text, line) in [("notes", 1), ("notes\n", 1), ("{}\n", 1), ("[1]\n{\"url\":\"", 1)] {
            fs::write(&file, text).unwrap();
            let refused = Export::open(&file, DAY).unwrap_err();
            assert!(matches!(refused, ExportError::Foreign { line: at, .. } if at == line), "{refused}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }
}
