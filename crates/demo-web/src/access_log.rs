//! Access log of the server.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

/// Entry of the access log: one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLogEntry {
    /// Host of the request, without the port.
    pub host: String,
    /// Path and query of the request.
    pub path: String,
    /// Status of the response; 0 for a reset or a disconnected client.
    pub status: u16,
    /// Time of the request, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    /// Time of the response, in milliseconds since the Unix epoch.
    pub ended_ms: u64,
    /// Time of the request by a monotonic clock, in microseconds since the start of the server.
    pub started_us: u64,
    /// Time of the response by the monotonic clock.
    pub ended_us: u64,
    /// Number of concurrent requests of the host at its start, itself included.
    pub open: u32,
}

/// Access log of a server, ordered by end. A request is logged before its response is sent.
#[derive(Debug)]
pub struct AccessLog {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    visits: Vec<AccessLogEntry>,
    file: Option<File>,
    /// First write error.
    error: Option<String>,
}

impl AccessLog {
    pub(crate) fn in_memory() -> Self {
        Self { inner: Mutex::default() }
    }

    pub(crate) fn with_file(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { inner: Mutex::new(Inner { file: Some(file), ..Inner::default() }) })
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> Vec<AccessLogEntry> {
        self.inner.lock().visits.clone()
    }

    /// Entries after the first `count`.
    #[must_use]
    pub fn after(&self, count: usize) -> Vec<AccessLogEntry> {
        self.inner.lock().visits.get(count..).unwrap_or_default().to_vec()
    }

    /// Entries of one host, ordered by start.
    #[must_use]
    pub fn of(&self, host: &str) -> Vec<AccessLogEntry> {
        let mut visits: Vec<AccessLogEntry> =
            self.inner.lock().visits.iter().filter(|visit| visit.host == host).cloned().collect();
        visits.sort_by_key(|visit| visit.started_us);
        visits
    }

    /// Number of requests for a path of a host.
    #[must_use]
    pub fn count(&self, host: &str, path: &str) -> usize {
        self.inner.lock().visits.iter().filter(|visit| visit.host == host && visit.path == path).count()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().visits.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First error of the log file.
    #[must_use]
    pub fn file_error(&self) -> Option<String> {
        self.inner.lock().error.clone()
    }

    /// Reads a log file, without an incomplete last line.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a complete line is no entry.
    pub fn read(path: &Path) -> io::Result<Vec<AccessLogEntry>> {
        let text = std::fs::read_to_string(path)?;
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
    }

    pub(crate) fn push(&self, visit: AccessLogEntry) {
        let mut inner = self.inner.lock();
        if let Some(file) = &mut inner.file {
            // One write per line, so that concurrent readers see complete lines.
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
}
