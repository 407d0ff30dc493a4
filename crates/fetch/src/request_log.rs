//! The request log: at level `info` a line for each request, robots.txt, sitemaps and redirects included.

use crate::error::HopError;
use crawlway_content::NormalUrl;
use http::StatusCode;
use std::time::Instant;

/// Log target of the lines.
const TARGET: &str = "crawlway::request";
/// Error of a cancelled request.
const GIVEN_UP: &str = "given_up";

/// Log line of one request, written at its end, also when it is cancelled.
pub(crate) struct RequestLine<'a> {
    url: &'a NormalUrl,
    started: Instant,
    is_written: bool,
}

impl<'a> RequestLine<'a> {
    pub(crate) fn begin(url: &'a NormalUrl) -> Self {
        Self { url, started: Instant::now(), is_written: false }
    }

    /// Writes the line of a response, with the size of its body on the wire.
    pub(crate) fn response(mut self, status: StatusCode, bytes: usize) {
        self.is_written = true;
        let (url, status, took_ms) = (self.url.as_str(), status.as_u16(), self.took_ms());
        tracing::info!(target: TARGET, method = "GET", url, status, bytes, took_ms, "request");
    }

    pub(crate) fn error(mut self, error: &HopError) {
        self.is_written = true;
        // A stale pooled connection: the request is sent again on a new one.
        if !error.stale {
            self.write_error(error.code.as_str(), &error.detail);
        }
    }

    fn write_error(&self, error: &str, detail: &str) {
        let (url, took_ms) = (self.url.as_str(), self.took_ms());
        tracing::info!(target: TARGET, method = "GET", url, error, detail, took_ms, "request");
    }

    fn took_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for RequestLine<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            self.write_error(GIVEN_UP, "cancelled by the total timeout or by a shutdown");
        }
    }
}
