//! Answers: what a server says to a request for one URL, and how often it fails first.

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

/// When the oldest page was last changed: 2024-01-01. A day fits between any two of them.
const FIRST_CHANGE: u64 = 1_704_067_200;

/// An answer to a request: its status, its headers and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers, without those that a connection needs.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A page in UTF-8.
    pub(crate) fn html(html: impl Into<Bytes>) -> Self {
        Self::of_type("text/html; charset=utf-8", html)
    }

    pub(crate) fn of_type(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Self { status: StatusCode::OK, headers, body: body.into() }
    }

    /// A status with a short page that says so.
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

    /// Lets caches ask whether it has changed: by an ETag of its body, by a date, or by both.
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

    /// Whether a request with these headers has this version already.
    pub(crate) fn is_known(&self, asked: &HeaderMap) -> bool {
        if self.status != StatusCode::OK {
            return false;
        }
        if let Some(known) = asked.get(IF_NONE_MATCH) {
            // RFC 9110: with this header there, the date is not looked at.
            let Some(tag) = self.headers.get(ETAG).and_then(|tag| tag.to_str().ok()) else { return false };
            return known.to_str().is_ok_and(|known| {
                known.split(',').map(|tag| tag.trim().trim_start_matches("W/")).any(|k| k == tag || k == "*")
            });
        }
        match (date(asked, &IF_MODIFIED_SINCE), date(&self.headers, &LAST_MODIFIED)) {
            (Some(since), Some(changed)) => changed <= since,
            _ => false,
        }
    }

    /// What is said to who has this version already.
    pub(crate) fn not_modified(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        Self { status: StatusCode::NOT_MODIFIED, headers, body: Bytes::new() }
    }
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// How a request goes wrong before there is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// This status.
    Status(StatusCode),
    /// 503, with so many seconds in `Retry-After`.
    Later(u32),
    /// The connection is reset.
    Reset,
}

/// An answer, and the trouble that comes before it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) answer: Answer,
    /// What goes wrong, and how often; for ever if that is `u32::MAX`.
    pub(crate) trouble: Option<(Trouble, u32)>,
    tries: AtomicU32,
}

impl Resource {
    pub(crate) fn new(answer: Answer, trouble: Option<(Trouble, u32)>) -> Self {
        Self { answer, trouble, tries: AtomicU32::new(0) }
    }

    /// Counts a try; the trouble that it meets.
    pub(crate) fn meet(&self) -> Option<Trouble> {
        let (trouble, times) = self.trouble?;
        if times == u32::MAX {
            return Some(trouble);
        }
        (self.tries.fetch_add(1, Ordering::Relaxed) < times).then_some(trouble)
    }

    pub(crate) fn fails_always(&self) -> bool {
        self.trouble.is_some_and(|(_, times)| times == u32::MAX)
    }
}
