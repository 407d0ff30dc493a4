//! Changes to a web while it is served: page contents and failures of hosts.

use crate::{
    random::{Random, fingerprint},
    response::PageResponse,
    text,
    web::Web,
};
use hyper::{
    StatusCode,
    header::{ETAG, LAST_MODIFIED},
};
use parking_lot::RwLock;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, SystemTime},
};
use tokio::sync::watch;

/// Failure of a whole host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Status 503.
    Unavailable {
        /// Seconds in `Retry-After`.
        retry_after: Option<u32>,
    },
    /// Status 429.
    TooManyRequests {
        /// Seconds in `Retry-After`.
        retry_after: Option<u32>,
    },
    /// No response; pending requests are reset when the host recovers.
    Hang,
    /// Connection reset.
    Reset,
}

/// New version of a changed page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageChange {
    /// Unique word of the new version; the unique word of the old one is gone.
    pub word: String,
    /// ETag of the new version.
    pub etag: String,
}

/// Changed pages and failures of hosts.
#[derive(Debug)]
pub(crate) struct Overrides {
    /// Whether there are any changes, so that an unchanged web takes no lock.
    any_changes: AtomicBool,
    changes: RwLock<HashMap<(usize, String), PageResponse>>,
    versions: AtomicU64,
    hosts: Vec<HostState>,
}

#[derive(Debug)]
struct HostState {
    failing: AtomicBool,
    failure: watch::Sender<Option<Failure>>,
}

impl Overrides {
    pub(crate) fn new(hosts: usize) -> Self {
        let state = || HostState { failing: AtomicBool::new(false), failure: watch::Sender::new(None) };
        Self {
            any_changes: AtomicBool::new(false),
            changes: RwLock::default(),
            versions: AtomicU64::new(0),
            hosts: (0..hosts).map(|_| state()).collect(),
        }
    }

    /// Response of a changed page.
    pub(crate) fn changed(&self, host: usize, path: &str) -> Option<PageResponse> {
        if !self.any_changes.load(Ordering::Acquire) {
            return None;
        }
        let changes = self.changes.read();
        changes.get(&(host, path.to_owned())).cloned()
    }

    pub(crate) fn put(&self, host: usize, path: &str, answer: PageResponse) {
        let mut changes = self.changes.write();
        changes.insert((host, path.to_owned()), answer);
        self.any_changes.store(true, Ordering::Release);
    }

    /// Creates a new version of a page.
    pub(crate) fn rewrite(&self, web: &Web, url: &str) -> Option<PageChange> {
        let (host, path) = web.locate(url)?;
        let before = self.changed(host, path).or_else(|| web.response(url))?;
        if before.status != StatusCode::OK {
            return None;
        }
        let version = 1 + self.versions.fetch_add(1, Ordering::Relaxed);
        let word = format!("zv{version:05}y");
        let own_word = web.ground_truth().indexed.get(url).and_then(|page| page.word.as_deref());
        let body = rewritten(&before.body, own_word, &word, version);
        let etag = format!("\"{:016x}\"", fingerprint(&body));
        let now = SystemTime::now() + Duration::from_secs(version);
        let answer = PageResponse { body: body.into(), ..before }
            .with(ETAG, &etag)
            .with(LAST_MODIFIED, &httpdate::fmt_http_date(now));
        self.put(host, path, answer);
        Some(PageChange { word, etag })
    }

    pub(crate) fn fail(&self, host: usize, failure: Option<Failure>) {
        let state = &self.hosts[host];
        state.failure.send_replace(failure);
        state.failing.store(failure.is_some(), Ordering::Release);
    }

    pub(crate) fn failure(&self, host: usize) -> Option<Failure> {
        let state = &self.hosts[host];
        if !state.failing.load(Ordering::Acquire) {
            return None;
        }
        *state.failure.borrow()
    }

    /// Waits until the host no longer hangs.
    pub(crate) async fn while_hanging(&self, host: usize) {
        let mut failure = self.hosts[host].failure.subscribe();
        // An error means that the sender is gone, and with it the server.
        let _ = failure.wait_for(|failure| *failure != Some(Failure::Hang)).await;
    }
}

/// Page with another unique word and new paragraphs, so that it is no near-duplicate of the old version. On bytes, since
/// all charsets of the webs are supersets of ASCII.
fn rewritten(body: &[u8], own_word: Option<&str>, word: &str, version: u64) -> Vec<u8> {
    let own = own_word.unwrap_or_default().as_bytes();
    let mut out = Vec::with_capacity(body.len() + 2048);
    let mut rest = body;
    let end = b"</article>";
    let mut added = false;
    while !rest.is_empty() {
        if !own.is_empty() && rest.starts_with(own) {
            out.extend_from_slice(word.as_bytes());
            rest = &rest[own.len()..];
            continue;
        }
        if !added && rest.starts_with(end) {
            added = true;
            push_new_paragraphs(&mut out, word, version);
        }
        out.push(rest[0]);
        rest = &rest[1..];
    }
    if !added {
        push_new_paragraphs(&mut out, word, version);
    }
    out
}

fn push_new_paragraphs(out: &mut Vec<u8>, word: &str, version: u64) {
    let mut random = Random::of(0x00C4_A66E, version);
    out.extend_from_slice(format!("<p>Changed since: {word}.</p>\n").as_bytes());
    for paragraph in text::paragraphs(&mut random, 150) {
        out.extend_from_slice(format!("<p>{paragraph}</p>\n").as_bytes());
    }
}
