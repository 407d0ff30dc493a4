//! The request log: at level `info` a line for each request, robots.txt, sitemaps and redirects included.

use crate::error::Trouble;
use crawlway_content::NormalUrl;
use http::StatusCode;
use std::time::Instant;

/// By which the lines can be told from others.
const TARGET: &str = "crawlway::request";
/// The error of a request that was not waited for any longer.
const GIVEN_UP: &str = "given_up";

/// The line of one request, written when that has ended, however it ends.
pub(crate) struct RequestLine<'a> {
    url: &'a NormalUrl,
    began: Instant,
    is_written: bool,
}

impl<'a> RequestLine<'a> {
    pub(crate) fn begin(url: &'a NormalUrl) -> Self {
        Self { url, began: Instant::now(), is_written: false }
    }

    /// It was answered with so many bytes of body, as they were sent.
    pub(crate) fn answered(mut self, status: StatusCode, bytes: usize) {
        self.is_written = true;
        let (url, status, took_ms) = (self.url.as_str(), status.as_u16(), self.took_ms());
        tracing::info!(target: TARGET, method = "GET", url, status, bytes, took_ms, "request");
    }

    pub(crate) fn failed(mut self, trouble: &Trouble) {
        self.is_written = true;
        // A connection that was kept had been closed: it is asked again on another.
        if !trouble.stale {
            self.write_error(trouble.code.as_str(), &trouble.detail);
        }
    }

    fn write_error(&self, error: &str, detail: &str) {
        let (url, took_ms) = (self.url.as_str(), self.took_ms());
        tracing::info!(target: TARGET, method = "GET", url, error, detail, took_ms, "request");
    }

    fn took_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for RequestLine<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            self.write_error(GIVEN_UP, "it was not done in time, or the process ends");
        }
    }
}
