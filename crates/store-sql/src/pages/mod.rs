//! The page index on PostgreSQL.
//!
//! ```text
//! row.rs       a page as a row, with its tokens in two columns: `head` (domains and title) and `body` (text)
//! write.rs     writing and removing pages
//! query.rs     a query as a condition and a score in SQL
//! search.rs    ranking, near-duplicates, snippets
//! ```
//!
//! The tokenizer is that of the embedded index, because PostgreSQL's `tsvector` cannot tokenize scripts without spaces, is
//! limited to 1 MB and drops positions. Tokens are stored in the order of the text, each with a prefix and a space after it:
//!
//! ```text
//! head   @www.example.org @example.org @org .polite .crawlers
//! body   ,the ,quick ,brown ,fox
//! ```
//!
//! A GIN index over the tokens of both finds the pages that have a word. A phrase is a substring of the column, so there is no
//! limit to its position or to the length of a page.

mod query;
mod row;
mod search;
mod write;

use crate::{
    connection::Arg,
    dialect::Sql,
    fault::Fault,
    key::Key,
    store::{SqlStore, read, transact},
    time::{millis, saturating_i64},
};
use crawlway_store::{
    IndexedPage, PageIndex, StoreError, Timestamp,
    pages::{Query, SearchError, SearchRequest, SearchResults, precedence::clamp_crawl_times},
};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Interval between sweeps of tombstones past their retention.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// The page index in a PostgreSQL database, for any number of processes. [`SqlStore::page_index`] opens it.
///
/// A search reads the tokens of every matching page to rank it, so its time grows with the number of matches.
#[derive(Debug)]
pub struct SqlPageIndex {
    store: SqlStore,
    closed: AtomicBool,
    swept: Mutex<Option<Instant>>,
}

impl SqlStore {
    /// The page index in this database, over the same connections. PostgreSQL only.
    pub fn page_index(&self) -> Result<SqlPageIndex, StoreError> {
        if !self.is_shared() {
            let problem =
                "SQLite holds no page index; use the embedded index beside it, or PostgreSQL for both";
            return Err(StoreError::Invalid { problem: problem.to_owned() });
        }
        Ok(SqlPageIndex { store: self.clone(), closed: AtomicBool::new(false), swept: Mutex::default() })
    }
}

impl SqlPageIndex {
    fn open(&self) -> Result<&SqlStore, StoreError> {
        if self.closed.load(Ordering::Acquire) { Err(StoreError::Closed) } else { Ok(&self.store) }
    }

    /// Whether a sweep is due; true once per interval.
    fn is_sweep_due(&self) -> bool {
        let mut swept = self.swept.lock();
        let is_due = swept.is_none_or(|at| at.elapsed() >= SWEEP_INTERVAL);
        if is_due {
            *swept = Some(Instant::now());
        }
        is_due
    }
}

#[async_trait::async_trait]
impl PageIndex for SqlPageIndex {
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError> {
        let store = self.open()?;
        pages.iter().try_for_each(IndexedPage::check)?;
        if pages.is_empty() {
            return Ok(());
        }
        let pages = clamp_crawl_times(pages, Timestamp::now());
        let latest = write::latest(&pages);
        transact!(store, tx, write::write(tx, &latest))
    }

    async fn search(&self, search: &SearchRequest) -> Result<SearchResults, SearchError> {
        search.check()?;
        let query = Query::parse(&search.query)?;
        let store = self.open()?;
        Ok(read!(store, tx, search::search(tx, &query, search))?)
    }

    async fn get(&self, url: &str) -> Result<Option<IndexedPage>, StoreError> {
        static GET: Sql = row::select!("FROM pages WHERE hash = $1 AND removed = 0");
        let store = self.open()?;
        let rows = read!(store, tx, tx.run(&GET, vec![Arg::Key(Key::of(url))]))?;
        Ok(rows.first().map(row::page).transpose()?)
    }

    async fn count(&self) -> Result<u64, StoreError> {
        static COUNT: Sql = Sql::new("SELECT count(*) FROM pages WHERE removed = 0");
        let store = self.open()?;
        let rows = read!(store, tx, tx.run(&COUNT, vec![]))?;
        Ok(rows.first().map_or(Ok(0), |row| row.count(0))?)
    }

    async fn scan(&self, after: Option<&str>, max: usize) -> Result<Vec<IndexedPage>, StoreError> {
        // The index has a prefix of the URL, since a whole one may be too long; the few that share it are sorted.
        static FIRST: Sql =
            row::select!("FROM pages WHERE removed = 0 ORDER BY substr(url, 1, 200), url LIMIT $1");
        static AFTER: Sql = row::select!(
            "FROM pages WHERE substr(url, 1, 200) >= substr($2, 1, 200) AND url > $2 AND removed = 0
             ORDER BY substr(url, 1, 200), url LIMIT $1"
        );
        let store = self.open()?;
        let max = Arg::Int(saturating_i64(max as u64));
        let rows = match after {
            None => read!(store, tx, tx.run(&FIRST, vec![max])),
            Some(after) => read!(store, tx, tx.run(&AFTER, vec![max, Arg::Text(after)])),
        };
        Ok(rows?.iter().map(row::page).collect::<Result<_, Fault>>()?)
    }

    async fn scan_matching(
        &self,
        query: &Query,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<IndexedPage>, StoreError> {
        let store = self.open()?;
        read!(store, tx, search::matching(tx, query, after, max))
    }

    async fn remove(&self, urls: &[String], gone_at: Option<Timestamp>) -> Result<u64, StoreError> {
        let store = self.open()?;
        if urls.is_empty() {
            return Ok(0);
        }
        let removed = transact!(store, tx, write::remove(tx, urls, gone_at))?;
        if self.is_sweep_due() {
            // The clock that dates tombstones.
            let now = millis(Timestamp::now());
            transact!(store, tx, write::sweep(tx, now))?;
        }
        Ok(removed)
    }

    /// Closes this index, but not the store below it.
    async fn close(&self) -> Result<(), StoreError> {
        self.closed.store(true, Ordering::Release);
        Ok(())
    }
}
