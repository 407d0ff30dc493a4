//! The log of a server: who asked for what, from when to when.

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

/// One request and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// The host as the request named it, without the port.
    pub host: String,
    /// The path and query as they were asked for.
    pub path: String,
    /// The status of the answer; 0 if there was none (reset, or the client left).
    pub status: u16,
    /// When the request's head had come, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// When the answer was handed over to be sent, in milliseconds since the Unix epoch.
    pub ended_ms: u64,
    /// The start again, in microseconds since the server began, by a clock that never jumps.
    pub started_us: u64,
    /// The end again by that clock.
    pub ended_us: u64,
    /// How many requests the host had open when this one came, itself included.
    pub open: u32,
}

/// The visits of a server so far, in the order in which they ended. It can be read while the server runs.
///
/// A visit is written down before its answer is sent: who has the answer finds the visit here.
#[derive(Debug)]
pub struct Log {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    visits: Vec<Visit>,
    file: Option<File>,
    /// The first line that could not be written.
    error: Option<String>,
}

impl Log {
    pub(crate) fn in_memory() -> Self {
        Self { inner: Mutex::default() }
    }

    pub(crate) fn with_file(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { inner: Mutex::new(Inner { file: Some(file), ..Inner::default() }) })
    }

    /// All visits so far.
    #[must_use]
    pub fn visits(&self) -> Vec<Visit> {
        self.lock().visits.clone()
    }

    /// The visits after the first `count`, for who has read those already.
    #[must_use]
    pub fn after(&self, count: usize) -> Vec<Visit> {
        self.lock().visits.get(count..).unwrap_or_default().to_vec()
    }

    /// The visits of one host, in the order in which they began.
    #[must_use]
    pub fn of(&self, host: &str) -> Vec<Visit> {
        let mut visits: Vec<Visit> =
            self.lock().visits.iter().filter(|visit| visit.host == host).cloned().collect();
        visits.sort_by_key(|visit| visit.started_us);
        visits
    }

    /// How often a path of a host was asked for.
    #[must_use]
    pub fn count(&self, host: &str, path: &str) -> usize {
        self.lock().visits.iter().filter(|visit| visit.host == host && visit.path == path).count()
    }

    /// How many visits there are so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().visits.len()
    }

    /// Whether nobody has come yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Why a line is missing in the file, if one is.
    #[must_use]
    pub fn file_error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    /// Reads a file of visits. A line that is still being written is left out.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line that is complete is not a visit.
    pub fn read(path: &Path) -> io::Result<Vec<Visit>> {
        let text = std::fs::read_to_string(path)?;
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
    }

    pub(crate) fn push(&self, visit: Visit) {
        let mut inner = self.lock();
        if let Some(file) = &mut inner.file {
            // One write a line, so that whoever reads along finds whole lines.
            let line = serde_json::to_vec(&visit).map(|mut line| {
                line.push(b'\n');
                line
            });
            let written = line.map_err(io::Error::from).and_then(|line| file.write_all(&line));
            if let Err(error) = written {
                inner.error.get_or_insert(error.to_string());
            }
        }
        inner.visits.push(visit);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}
