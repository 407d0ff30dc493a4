//! Responses of the server for one URL, and faults before them.

use crate::random::fingerprint;
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
        IF_NONE_MATCH, LAST_MODIFIED, LOCATION,
    },
};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// `Last-Modified` of the oldest page: 2024-01-01. The others are whole days later.
const FIRST_CHANGE: u64 = 1_704_067_200;

/// Response of a page: status, headers and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageResponse {
    /// Status.
    pub status: StatusCode,
    /// Headers, without those of the connection.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl PageResponse {
    /// Page in UTF-8.
    pub(crate) fn html(html: impl Into<Bytes>) -> Self {
        Self::of_type("text/html; charset=utf-8", html)
    }

    pub(crate) fn of_type(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { status: StatusCode::OK, headers, body: body.into() }
    }

    /// Status with a short page.
    pub(crate) fn status(status: StatusCode) -> Self {
        let reason = status.canonical_reason().unwrap_or("error");
        let body = format!("<!DOCTYPE html>\n<title>{reason}</title>\n<p>{status}</p>\n");
        Self { status, ..Self::html(body) }
    }

    pub(crate) fn redirect(status: StatusCode, to: &str) -> Self {
        Self::status(status).with(LOCATION, to)
    }

    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds validators: an ETag, a date, or both.
    pub(crate) fn conditional(mut self, which: usize) -> Self {
        if which % 3 != 1 {
            let tag = format!("\"{:016x}\"", fingerprint(&self.body));
            self = self.with(ETAG, &tag);
        }
        if !which.is_multiple_of(3) {
            let day = Duration::from_secs(FIRST_CHANGE + 86_400 * (which as u64 % 300));
            self = self.with(LAST_MODIFIED, &httpdate::fmt_http_date(UNIX_EPOCH + day));
        }
        self.with(CACHE_CONTROL, "no-cache")
    }

    /// Whether the validators of a conditional request match this version.
    pub(crate) fn matches_validators(&self, request: &HeaderMap) -> bool {
        if self.status != StatusCode::OK {
            return false;
        }
        if let Some(tags) = request.get(IF_NONE_MATCH) {
            // RFC 9110: `If-None-Match` takes precedence over the date.
            let Some(tag) = self.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) else { return false };
            return tags.to_str().is_ok_and(|tags| {
                tags.split(',').map(|tag| tag.trim().trim_start_matches("W/")).any(|k| k == tag || k == "*")
            });
        }
        match (date(request, &IF_MODIFIED_SINCE), date(&self.headers, &LAST_MODIFIED)) {
            (Some(since), Some(changed)) => changed <= since,
            _ => false,
        }
    }

    /// Status 304 for this version.
    pub(crate) fn not_modified(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        Self { status: StatusCode::NOT_MODIFIED, headers, body: Bytes::new() }
    }
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// Fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Error status.
    Status(StatusCode),
    /// Status 503 with `Retry-After` in seconds.
    RetryAfter(u32),
    /// Connection reset.
    Reset,
}

/// Response with a fault before it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) response: PageResponse,
    /// Fault and its number of occurrences; `u32::MAX` means always.
    pub(crate) fault: Option<(Fault, u32)>,
    attempts: AtomicU32,
}

impl Resource {
    pub(crate) fn new(response: PageResponse, fault: Option<(Fault, u32)>) -> Self {
        Self { response, fault, attempts: AtomicU32::new(0) }
    }

    /// Counts an attempt, and returns its fault.
    pub(crate) fn next_fault(&self) -> Option<Fault> {
        let (fault, times) = self.fault?;
        if times == u32::MAX {
            return Some(fault);
        }
        (self.attempts.fetch_add(1, Ordering::Relaxed) < times).then_some(fault)
    }

    pub(crate) fn fails_always(&self) -> bool {
        self.fault.is_some_and(|(_, times)| times == u32::MAX)
    }
}
