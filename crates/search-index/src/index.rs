//! The page index contract: reads run on blocking threads, writes on the writer thread.

use crate::{
    error::{OpenError, unavailable},
    open,
    query::compile,
    rank,
    schema::Fields,
    search, urls,
    writer::{self, Reply, Request},
};
use crawlway_store::{
    IndexedPage, PageIndex, StoreError, Timestamp,
    pages::{Query, SearchError, SearchRequest, SearchResults, precedence::clamp_crawl_times},
};
use parking_lot::{Mutex, RwLock};
use std::{
    path::Path,
    sync::{Arc, mpsc::Sender},
    thread::JoinHandle,
};
use tantivy::{IndexReader, Searcher};
use tokio::sync::oneshot;

/// Options of an index.
#[derive(Debug, Clone)]
pub struct IndexOptions {
    /// Memory budget of all indexing threads together, in bytes; at least 16 MB per thread.
    pub memory: usize,
    /// Indexing threads. One more merges in the background.
    pub threads: usize,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { memory: 64 << 20, threads: 1 }
    }
}

/// Minimum memory budget of a thread.
const MIN_MEMORY: usize = 16 << 20;

/// The page index in a directory.
///
/// Dropping it closes it like [`close`](PageIndex::close), which may take as long as a merge.
pub struct TantivyIndex {
    fields: Fields,
    open: RwLock<Option<Open>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Resources that are released when the index is closed.
struct Open {
    requests: Sender<Request>,
    reader: IndexReader,
}

impl std::fmt::Debug for TantivyIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TantivyIndex").finish_non_exhaustive()
    }
}

impl TantivyIndex {
    /// Opens the index in a directory, which is created if missing. An index of an older version is rebuilt first, which
    /// takes time and, temporarily, twice the space.
    pub fn open(directory: impl AsRef<Path>, options: IndexOptions) -> Result<Self, OpenError> {
        let IndexOptions { memory, threads } = options;
        if threads == 0 || memory / threads < MIN_MEMORY || memory / threads > 4_000_000_000 {
            let problem = format!(
                "{threads} threads with {memory} bytes of memory together cannot index; \
                 give at least one thread, and each from {MIN_MEMORY} to 4000000000 bytes"
            );
            return Err(OpenError::InvalidOptions { problem });
        }
        let directory = directory.as_ref();
        let open::Opened { lock, index, reader, fields, tombstones } = open::open(directory, memory)?;
        let parts =
            writer::Parts { index, reader: reader.clone(), fields, tombstones, memory, threads, _lock: lock };
        let (requests, thread) =
            writer::start(parts).map_err(|error| OpenError::io("start the writer of", directory, error))?;
        let open = RwLock::new(Some(Open { requests, reader }));
        Ok(Self { fields, open, thread: Mutex::new(Some(thread)) })
    }

    fn with_open<T>(&self, take: impl FnOnce(&Open) -> T) -> Result<T, StoreError> {
        let open = self.open.read();
        open.as_ref().map(take).ok_or(StoreError::Closed)
    }

    async fn request<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.with_open(|open| open.requests.send(request(reply)))?.map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Searcher, &Fields) -> tantivy::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let searcher = self.with_open(|open| open.reader.searcher())?;
        let fields = self.fields;
        match tokio::task::spawn_blocking(move || read(&searcher, &fields)).await {
            Ok(result) => result.map_err(|error| unavailable(doing, &error)),
            // Reading a damaged file may panic.
            Err(error) => Err(StoreError::Unavailable {
                detail: format!("cannot {doing}: {error}; check the disk of the search index"),
            }),
        }
    }
}

impl Drop for TantivyIndex {
    fn drop(&mut self) {
        if self.open.get_mut().take().is_none() {
            return;
        }
        if let Some(thread) = self.thread.get_mut().take() {
            let _ = thread.join();
        }
    }
}

#[async_trait::async_trait]
impl PageIndex for TantivyIndex {
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError> {
        pages.iter().try_for_each(IndexedPage::check)?;
        if pages.is_empty() {
            return self.with_open(|_| ());
        }
        let pages = clamp_crawl_times(pages, Timestamp::now());
        self.request(|reply| Request::Write(pages, reply)).await
    }

    async fn search(&self, search: &SearchRequest) -> Result<SearchResults, SearchError> {
        search.check()?;
        let query = Query::parse(&search.query)?;
        let search = search.clone();
        let found =
            self.read("search", move |searcher, fields| search::search(searcher, fields, &query, &search));
        Ok(found.await?)
    }

    async fn get(&self, url: &str) -> Result<Option<IndexedPage>, StoreError> {
        let url = url.to_owned();
        self.read("read a page", move |searcher, fields| {
            urls::find(searcher, fields, &url)?.map(|address| urls::read(searcher, address)).transpose()
        })
        .await
    }

    async fn count(&self) -> Result<u64, StoreError> {
        self.with_open(|open| open.reader.searcher().num_docs())
    }

    async fn scan(&self, after: Option<&str>, most: usize) -> Result<Vec<IndexedPage>, StoreError> {
        let after = after.map(str::to_owned);
        self.read("read pages", move |searcher, fields| urls::scan(searcher, fields, after.as_deref(), most))
            .await
    }

    async fn scan_matching(
        &self,
        query: &Query,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<IndexedPage>, StoreError> {
        let (query, after) = (query.clone(), after.map(str::to_owned));
        self.read("list pages", move |searcher, fields| {
            let found = rank::first_by_url(searcher, &*compile(fields, &query), after.as_deref(), most)?;
            found.into_iter().map(|address| urls::read(searcher, address)).collect()
        })
        .await
    }

    async fn remove(&self, urls: &[String], gone_at: Option<Timestamp>) -> Result<u64, StoreError> {
        if urls.is_empty() {
            return self.with_open(|_| 0);
        }
        self.request(|reply| Request::Remove(urls.to_vec(), gone_at, reply)).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        let thread = self.thread.lock().take();
        let open = self.open.write().take();
        // Closing twice is harmless.
        let Some(Open { requests, reader }) = open else { return Ok(()) };
        drop(reader);
        let (reply, answer) = oneshot::channel();
        let sent = requests.send(Request::Close(reply));
        let closed = if sent.is_ok() { answer.await.unwrap_or(Ok(())) } else { Ok(()) };
        if let Some(thread) = thread {
            // It has answered, so it ends at once.
            let _ = tokio::task::spawn_blocking(|| thread.join()).await;
        }
        closed
    }
}
