//! What a test changes while a web is served: pages, and whether hosts answer at all.

use crate::{
    answer::Answer,
    random::{Random, fingerprint},
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

/// How a host fails from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// 503, with `Retry-After` in seconds if that is said.
    Unavailable {
        /// Seconds in `Retry-After`.
        retry_after: Option<u32>,
    },
    /// 429, with `Retry-After` in seconds if that is said.
    TooManyRequests {
        /// Seconds in `Retry-After`.
        retry_after: Option<u32>,
    },
    /// No answer comes; whoever waits is reset when the host recovers.
    Hang,
    /// The connection is reset.
    Reset,
}

/// What a page has become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// A word that the page has now and no page had before. The word that it had alone is gone.
    pub word: String,
    /// The ETag of the new version.
    pub etag: String,
}

/// What differs from the plan, and since when hosts fail.
#[derive(Debug)]
pub(crate) struct Live {
    /// So that a web in which nothing was changed takes no lock.
    any_changes: AtomicBool,
    changes: RwLock<HashMap<(usize, String), Answer>>,
    versions: AtomicU64,
    hosts: Vec<HostState>,
}

#[derive(Debug)]
struct HostState {
    failing: AtomicBool,
    failure: watch::Sender<Option<Failure>>,
}

impl Live {
    pub(crate) fn new(hosts: usize) -> Self {
        let state = || HostState { failing: AtomicBool::new(false), failure: watch::Sender::new(None) };
        Self {
            any_changes: AtomicBool::new(false),
            changes: RwLock::default(),
            versions: AtomicU64::new(0),
            hosts: (0..hosts).map(|_| state()).collect(),
        }
    }

    /// What a place has become, if it was changed.
    pub(crate) fn changed(&self, host: usize, path: &str) -> Option<Answer> {
        if !self.any_changes.load(Ordering::Acquire) {
            return None;
        }
        let changes = self.changes.read();
        changes.get(&(host, path.to_owned())).cloned()
    }

    pub(crate) fn put(&self, host: usize, path: &str, answer: Answer) {
        let mut changes = self.changes.write();
        changes.insert((host, path.to_owned()), answer);
        self.any_changes.store(true, Ordering::Release);
    }

    /// Writes a new version of a page.
    pub(crate) fn rewrite(&self, web: &Web, url: &str) -> Option<Changed> {
        let (host, path) = web.locate(url)?;
        let before = self.changed(host, path).or_else(|| web.answer(url))?;
        if before.status != StatusCode::OK {
            return None;
        }
        let version = 1 + self.versions.fetch_add(1, Ordering::Relaxed);
        let word = format!("zv{version:05}y");
        let own_word = web.truth().indexed.get(url).and_then(|page| page.word.as_deref());
        let body = rewritten(&before.body, own_word, &word, version);
        let etag = format!("\"{:016x}\"", fingerprint(&body));
        let now = SystemTime::now() + Duration::from_secs(version);
        let answer = Answer { body: body.into(), ..before }
            .with(ETAG, &etag)
            .with(LAST_MODIFIED, &httpdate::fmt_http_date(now));
        self.put(host, path, answer);
        Some(Changed { word, etag })
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

    /// Waits until a host no longer hangs.
    pub(crate) async fn while_hanging(&self, host: usize) {
        let mut failure = self.hosts[host].failure.subscribe();
        // It ends in an error only when this very object is gone, and then nobody waits.
        let _ = failure.wait_for(|failure| *failure != Some(Failure::Hang)).await;
    }
}

/// A page with its own word replaced, and three new paragraphs, so that it is no longer nearly what it was.
///
/// It works on bytes, since all charsets that the webs use write these words as ASCII does.
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
            push_news(&mut out, word, version);
        }
        out.push(rest[0]);
        rest = &rest[1..];
    }
    if !added {
        push_news(&mut out, word, version);
    }
    out
}

fn push_news(out: &mut Vec<u8>, word: &str, version: u64) {
    let mut random = Random::of(0x00C4_A66E, version);
    out.extend_from_slice(format!("<p>Changed since: {word}.</p>\n").as_bytes());
    for paragraph in text::paragraphs(&mut random, 150) {
        out.extend_from_slice(format!("<p>{paragraph}</p>\n").as_bytes());
    }
}
