//! The writer thread: it takes all pending requests, stores them with one commit (group commit), and answers them.

use crate::{
    bloom::UrlFilter,
    error::unavailable,
    merge::{Load, Policy},
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

/// Number of pages from which on further requests wait for the next commit.
const MAX_COMMIT: usize = 4_000;

/// Time without a request after which more segments are merged.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

pub(crate) enum Request {
    Write(Arc<[IndexedPage]>, Reply<()>),
    Remove(Vec<String>, Option<Timestamp>, Reply<u64>),
    /// Waits for merges and ends the thread.
    Close(Reply<()>),
}

/// Resources of the thread.
pub(crate) struct Parts {
    pub(crate) index: Index,
    pub(crate) reader: IndexReader,
    pub(crate) fields: Fields,
    pub(crate) tombstones: Tombstones,
    pub(crate) memory: usize,
    pub(crate) threads: usize,
    /// Held until the thread has closed the files.
    pub(crate) _lock: DirectoryLock,
}

/// Starts the thread. It ends with a request to close, or when all senders are dropped.
pub(crate) fn start(parts: Parts) -> std::io::Result<(Sender<Request>, JoinHandle<()>)> {
    let (sender, requests) = channel();
    let thread =
        std::thread::Builder::new().name("search-index".into()).spawn(move || run(parts, &requests))?;
    Ok((sender, thread))
}

fn run(parts: Parts, requests: &Receiver<Request>) {
    let mut writer = Writer { parts, inner: None, load: Load::Busy, may_merge: false, filter: None };
    let mut close = None;
    while let Some(first) = writer.next(requests) {
        let mut group = CommitBatch::default();
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
            // A removal is answered with a count, so it ends its group.
            let full = group.changes.len() >= MAX_COMMIT || !group.remove.is_empty();
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
struct CommitBatch {
    /// The latest version of each page, in the order of arrival: a batch and an index into it.
    changes: Vec<(Arc<[IndexedPage]>, usize)>,
    by_url: HashMap<String, usize>,
    written: Vec<Reply<()>>,
    remove: Vec<(Vec<String>, Option<Timestamp>, Reply<u64>)>,
}

impl CommitBatch {
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

/// The given filter, or a new one if that is full.
fn url_filter(filter: Option<UrlFilter>, searcher: &Searcher, fields: &Fields) -> tantivy::Result<UrlFilter> {
    match filter.filter(|filter| !filter.is_full()) {
        Some(filter) => Ok(filter),
        None => UrlFilter::of(searcher, fields),
    }
}

struct Writer {
    parts: Parts,
    /// None before the first write and after an error, which makes it unusable.
    inner: Option<IndexWriter>,
    load: Load,
    /// Whether there may be segments to merge when idle.
    may_merge: bool,
    /// Built with the first request.
    filter: Option<UrlFilter>,
}

impl Writer {
    /// Waits for the next request, and merges meanwhile. None once all senders are dropped.
    fn next(&mut self, requests: &Receiver<Request>) -> Option<Request> {
        while self.may_merge {
            match requests.recv_timeout(IDLE_TIMEOUT) {
                Ok(request) => {
                    self.set_load(Load::Busy);
                    return Some(request);
                }
                Err(RecvTimeoutError::Disconnected) => return None,
                // A failure is logged, and retried after the next write.
                Err(RecvTimeoutError::Timeout) => {
                    self.may_merge = matches!(self.guarded("merge segments", Self::merge), Ok(false));
                }
            }
        }
        let request = requests.recv().ok()?;
        self.set_load(Load::Busy);
        Some(request)
    }

    fn set_load(&mut self, load: Load) {
        if self.load != load {
            self.load = load;
            if let Some(writer) = &self.inner {
                writer.set_merge_policy(Box::new(Policy::new(load)));
            }
        }
    }

    /// Merges segments as when idle, and answers whether all merges are done.
    fn merge(&mut self) -> tantivy::Result<bool> {
        if self.inner.is_none() {
            // It failed; the next write opens another.
            return Ok(true);
        }
        let is_first = self.load == Load::Busy;
        self.set_load(Load::Idle);
        let segments = self.parts.index.searchable_segment_metas()?;
        let is_done = Policy::new(Load::Idle).compute_merge_candidates(&segments).is_empty();
        if is_first && !is_done {
            // A commit starts merges, even an empty one.
            self.commit()?;
        } else {
            self.parts.reader.reload()?;
        }
        Ok(is_done)
    }

    /// Runs one change. After an error the next change starts with a new writer, from the last commit.
    fn guarded<T>(
        &mut self,
        doing: &str,
        change: impl FnOnce(&mut Self) -> tantivy::Result<T>,
    ) -> Result<T, StoreError> {
        let panicked = |_| Err(TantivyError::ErrorInThread("the writer panicked".into()));
        let result = catch_unwind(AssertUnwindSafe(|| change(self))).unwrap_or_else(panicked);
        result.map_err(|error| {
            tracing::warn!(%error, "the search index cannot {doing}");
            // It may have failed to commit or merge, so its memory is invalid.
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
        // The reader has to release old files before they can be removed.
        reader.reload()?;
        let writer: IndexWriter = index.writer_with_options(options)?;
        writer.set_merge_policy(Box::new(Policy::new(self.load)));
        // Files left by a failed writer take space, which may be why it failed.
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
        let mut filter = url_filter(self.filter.take(), &searcher, fields)?;
        let mut times = urls::CrawlTimes::of(&searcher);
        let mut is_changed = false;
        for page in changes.iter().filter_map(|(pages, at)| pages.get(*at)) {
            if self.parts.tombstones.rejects(&page.url, page.crawled_at) {
                continue;
            }
            if filter.may_contain(page.url.as_bytes())
                && let Some(stored) = urls::find(&searcher, fields, &page.url)?
            {
                if !replaces(page.crawled_at, times.at(stored)?) {
                    continue;
                }
                // Only where there is a page, since each deletion is looked up in all segments at the commit.
                writer.delete_term(Term::from_field_text(fields.url, &page.url));
            }
            filter.insert(page.url.as_bytes());
            writer.add_document(to_document(fields, page))?;
            is_changed = true;
        }
        drop(times);
        drop(searcher);
        self.filter = Some(filter);
        if is_changed { self.commit() } else { Ok(()) }
    }

    fn remove(&mut self, urls: &[String], gone_at: Option<Timestamp>) -> tantivy::Result<u64> {
        let fields = &self.parts.fields;
        let searcher = self.parts.reader.searcher();
        let filter = url_filter(self.filter.take(), &searcher, fields)?;
        let mut times = urls::CrawlTimes::of(&searcher);
        let mut found: BTreeMap<&str, Timestamp> = BTreeMap::new();
        let mut newer: HashSet<&str> = HashSet::new();
        for url in urls.iter().filter(|url| filter.may_contain(url.as_bytes())) {
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
        self.filter = Some(filter);
        let now = Timestamp::now();
        let removed = urls.iter().map(String::as_str).filter(|url| !newer.contains(url));
        let removed = removed.map(|url| (url, tombstone(gone_at.unwrap_or(now), found.get(url).copied())));
        // Before the deletion: a deleted page must not come back, while one that is not deleted yet can be removed again.
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
        self.may_merge = true;
        writer.commit()?;
        // A commit renames a file; syncing the directory makes the new name durable.
        self.parts.index.directory().sync_directory()?;
        self.parts.reader.reload()
    }

    /// Waits for merges, and releases the files and the lock.
    fn close(mut self) -> Result<(), StoreError> {
        let Some(writer) = self.inner.take() else { return Ok(()) };
        let ended = writer.wait_merging_threads();
        // Merged files can only be removed by a new writer; if that fails, the next opening removes them.
        if let Err(error) = self.open() {
            tracing::debug!(%error, "merged files are not removed yet");
        }
        ended.map_err(|error| unavailable("end merging", &error))
    }
}
