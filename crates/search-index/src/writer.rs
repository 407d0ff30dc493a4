//! The one thread that writes: it takes all requests that wait, stores them with one commit, and answers them.

use crate::{
    error::unavailable,
    known::KnownUrls,
    merge::{Effort, Policy},
    schema::{Fields, to_document},
    tombstones::Tombstones,
    urls,
};
use crawlway_lock::DirectoryLock;
use crawlway_store::{
    IndexedPage, StoreError, Timestamp,
    pages::precedence::{replaces, tombstone},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};
use tantivy::{
    Directory, Index, IndexReader, IndexWriter, Searcher, TantivyError, Term,
    indexer::{IndexWriterOptions, MergePolicy},
};
use tokio::sync::oneshot;

/// From so many pages on, further requests wait for the next commit.
const MOST_IN_COMMIT: usize = 4_000;

/// After so long without a request, segments are merged that could wait before.
const IDLE_AFTER: Duration = Duration::from_secs(1);

pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub(crate) enum Request {
    Write(Arc<[IndexedPage]>, Reply<()>),
    Remove(Vec<String>, Option<Timestamp>, Reply<u64>),
    /// Waits for merges and ends.
    Close(Reply<()>),
}

/// What the thread needs.
pub(crate) struct Parts {
    pub(crate) index: Index,
    pub(crate) reader: IndexReader,
    pub(crate) fields: Fields,
    pub(crate) tombstones: Tombstones,
    pub(crate) memory: usize,
    pub(crate) threads: usize,
    /// Held until the thread is done with the files.
    pub(crate) _lock: DirectoryLock,
}

/// Starts the thread; it ends when asked to close, or when nobody can ask it any more.
pub(crate) fn start(parts: Parts) -> std::io::Result<(Sender<Request>, JoinHandle<()>)> {
    let (sender, requests) = channel();
    let thread =
        std::thread::Builder::new().name("search-index".into()).spawn(move || run(parts, &requests))?;
    Ok((sender, thread))
}

fn run(parts: Parts, requests: &Receiver<Request>) {
    let mut writer = Writer { parts, inner: None, effort: Effort::Busy, unsettled: false, known: None };
    let mut close = None;
    while let Some(first) = writer.next(requests) {
        let mut group = Group::default();
        let mut next = Some(first);
        while let Some(request) = next {
            match request {
                Request::Write(pages, reply) => group.write(pages, reply),
                Request::Remove(urls, gone_at, reply) => group.remove.push((urls, gone_at, reply)),
                Request::Close(reply) => {
                    close = Some(reply);
                    break;
                }
            }
            // A removal is answered with a count, so it is the last of its group.
            let full = group.changes.len() >= MOST_IN_COMMIT || !group.remove.is_empty();
            next = if full { None } else { requests.try_recv().ok() };
        }
        group.apply(&mut writer);
        if close.is_some() {
            break;
        }
    }
    let closed = writer.close();
    if let Some(reply) = close {
        let _ = reply.send(closed);
    }
}

/// Requests that share a commit.
#[derive(Default)]
struct Group {
    /// The page of each URL that was crawled last, in the order in which the URLs came, as a place in what was asked for.
    changes: Vec<(Arc<[IndexedPage]>, usize)>,
    by_url: HashMap<String, usize>,
    written: Vec<Reply<()>>,
    remove: Vec<(Vec<String>, Option<Timestamp>, Reply<u64>)>,
}

impl Group {
    fn write(&mut self, pages: Arc<[IndexedPage]>, reply: Reply<()>) {
        for (at, page) in pages.iter().enumerate() {
            let change = (pages.clone(), at);
            match self.by_url.entry(page.url.clone()) {
                Entry::Occupied(entry) => {
                    let (others, other) = &self.changes[*entry.get()];
                    if others.get(*other).is_none_or(|other| replaces(page.crawled_at, other.crawled_at)) {
                        self.changes[*entry.get()] = change;
                    }
                }
                Entry::Vacant(entry) => {
                    entry.insert(self.changes.len());
                    self.changes.push(change);
                }
            }
        }
        self.written.push(reply);
    }

    fn apply(self, writer: &mut Writer) {
        let Self { changes, by_url: _, written, remove } = self;
        if !written.is_empty() {
            let outcome = writer.guarded("store pages", |writer| writer.write(&changes));
            for reply in written {
                let _ = reply.send(outcome.clone());
            }
        }
        for (urls, gone_at, reply) in remove {
            let _ = reply.send(writer.guarded("remove pages", |writer| writer.remove(&urls, gone_at)));
        }
    }
}

/// The URLs of the index, from before or, where there is no room for more of them, anew.
fn known_urls(known: Option<KnownUrls>, searcher: &Searcher, fields: &Fields) -> tantivy::Result<KnownUrls> {
    match known.filter(|known| !known.is_full()) {
        Some(known) => Ok(known),
        None => KnownUrls::of(searcher, fields),
    }
}

struct Writer {
    parts: Parts,
    /// Missing before the first write and after an error, which leaves it unusable.
    inner: Option<IndexWriter>,
    effort: Effort,
    /// Whether there may be segments to merge once nothing else is to be done.
    unsettled: bool,
    /// All URLs of the index, once they are asked for.
    known: Option<KnownUrls>,
}

impl Writer {
    /// Waits for the next request, and merges meanwhile. There is none any more once nobody can ask.
    fn next(&mut self, requests: &Receiver<Request>) -> Option<Request> {
        while self.unsettled {
            match requests.recv_timeout(IDLE_AFTER) {
                Ok(request) => {
                    self.merge_as(Effort::Busy);
                    return Some(request);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                // What fails here is said, and tried again after the next write.
                Err(RecvTimeoutError::Timeout) => {
                    self.unsettled = matches!(self.guarded("merge segments", Self::settle), Ok(false));
                }
            }
        }
        let request = requests.recv().ok()?;
        self.merge_as(Effort::Busy);
        Some(request)
    }

    fn merge_as(&mut self, effort: Effort) {
        if self.effort != effort {
            self.effort = effort;
            if let Some(writer) = &self.inner {
                writer.set_merge_policy(Box::new(Policy::new(effort)));
            }
        }
    }

    /// Merges what could wait before, and says whether all of it is done and searched.
    fn settle(&mut self) -> tantivy::Result<bool> {
        if self.inner.is_none() {
            // It failed; the next write opens another.
            return Ok(true);
        }
        let is_first = self.effort == Effort::Busy;
        self.merge_as(Effort::Idle);
        let segments = self.parts.index.searchable_segment_metas()?;
        let is_settled = Policy::new(Effort::Idle).compute_merge_candidates(&segments).is_empty();
        if is_first && !is_settled {
            // Merges are begun by a commit, even by one of nothing.
            self.commit()?;
        } else {
            self.parts.reader.reload()?;
        }
        Ok(is_settled)
    }

    /// Runs one change to its end. After an error the next change starts with a new writer, from the last commit.
    fn guarded<T>(
        &mut self,
        doing: &str,
        change: impl FnOnce(&mut Self) -> tantivy::Result<T>,
    ) -> Result<T, StoreError> {
        let panicked = |_| Err(TantivyError::ErrorInThread("the writer panicked".into()));
        let result = catch_unwind(AssertUnwindSafe(|| change(self))).unwrap_or_else(panicked);
        result.map_err(|error| {
            tracing::warn!(%error, "the search index cannot {doing}");
            // It may have failed to commit or merge, so what it has in memory counts for nothing.
            self.inner = None;
            unavailable(doing, &error)
        })
    }

    fn open(&mut self) -> tantivy::Result<()> {
        if self.inner.is_some() {
            return Ok(());
        }
        let Parts { index, reader, memory, threads, .. } = &self.parts;
        let options = IndexWriterOptions::builder()
            .num_worker_threads(*threads)
            .memory_budget_per_thread(memory / threads)
            .num_merge_threads(1)
            .build();
        // Before the files that nobody reads are removed, the reader lets go of them.
        reader.reload()?;
        let writer: IndexWriter = index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(Policy::new(self.effort)));
        // What a writer that failed has left behind takes space, which may be what it failed for.
        writer.garbage_collect_files().wait()?;
        self.inner = Some(writer);
        Ok(())
    }

    fn write(&mut self, changes: &[(Arc<[IndexedPage]>, usize)]) -> tantivy::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.open()?;
        let Some(writer) = &self.inner else { return Ok(()) };
        let fields = &self.parts.fields;
        let searcher = self.parts.reader.searcher();
        let mut known = known_urls(self.known.take(), &searcher, fields)?;
        let mut times = urls::CrawlTimes::of(&searcher);
        let mut is_changed = false;
        for page in changes.iter().filter_map(|(pages, at)| pages.get(*at)) {
            if self.parts.tombstones.keep_out(&page.url, page.crawled_at) {
                continue;
            }
            if known.may_have(page.url.as_bytes())
                && let Some(stored) = urls::find(&searcher, fields, &page.url)?
            {
                if !replaces(page.crawled_at, times.at(stored)?) {
                    continue;
                }
                // Each deletion is looked for in all segments at the commit, so it is only asked for where there is one.
                writer.delete_term(Term::from_field_text(fields.url, &page.url));
            }
            known.add(page.url.as_bytes());
            writer.add_document(to_document(fields, page))?;
            is_changed = true;
        }
        drop(times);
        drop(searcher);
        self.known = Some(known);
        if is_changed { self.commit() } else { Ok(()) }
    }

    fn remove(&mut self, urls: &[String], gone_at: Option<Timestamp>) -> tantivy::Result<u64> {
        let fields = &self.parts.fields;
        let searcher = self.parts.reader.searcher();
        let known = known_urls(self.known.take(), &searcher, fields)?;
        let mut times = urls::CrawlTimes::of(&searcher);
        let mut found: BTreeMap<&str, Timestamp> = BTreeMap::new();
        let mut newer: HashSet<&str> = HashSet::new();
        for url in urls.iter().filter(|url| known.may_have(url.as_bytes())) {
            let Some(address) = urls::find(&searcher, fields, url)? else { continue };
            let crawled_at = times.at(address)?;
            if gone_at.is_some_and(|gone_at| crawled_at > gone_at) {
                newer.insert(url);
            } else {
                found.insert(url, crawled_at);
            }
        }
        drop(times);
        drop(searcher);
        self.known = Some(known);
        let now = Timestamp::now();
        let removed = urls.iter().map(String::as_str).filter(|url| !newer.contains(url));
        let removed = removed.map(|url| (url, tombstone(gone_at.unwrap_or(now), found.get(url).copied())));
        // First, since a page that is gone must not come back, while one that is still there is removed by the next call.
        self.parts.tombstones.add(removed, now, !found.is_empty())?;
        if found.is_empty() {
            return Ok(0);
        }
        self.open()?;
        let Some(writer) = &self.inner else { return Ok(0) };
        for url in found.keys() {
            writer.delete_term(Term::from_field_text(self.parts.fields.url, url));
        }
        self.commit()?;
        Ok(found.len() as u64)
    }

    fn commit(&mut self) -> tantivy::Result<()> {
        let Some(writer) = &mut self.inner else { return Ok(()) };
        self.unsettled = true;
        writer.commit()?;
        // The commit is a renamed file; only now the new name is on disk, too.
        self.parts.index.directory().sync_directory()?;
        self.parts.reader.reload()
    }

    /// Waits for merges, and lets go of the files and the lock.
    fn close(mut self) -> Result<(), StoreError> {
        let Some(writer) = self.inner.take() else { return Ok(()) };
        let ended = writer.wait_merging_threads();
        // What was merged can only be removed now, by a new writer; if that fails, the one of next time does it.
        if let Err(error) = self.open() {
            tracing::debug!(%error, "files that were merged are not removed yet");
        }
        ended.map_err(|error| unavailable("end merging", &error))
    }
}
