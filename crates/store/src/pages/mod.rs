//! The search index: pages by what they say.

mod domains;
pub mod near;
pub mod precedence;
pub mod query;
mod results;
pub mod snippet;
pub mod words;

pub use query::Query;
pub use results::{Duplicate, Hit, Results, Search, SearchError};

use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::{fmt::Debug, sync::Arc};

/// The pages that can be searched, each once by its URL.
#[async_trait::async_trait]
pub trait PageIndex: Debug + Send + Sync {
    /// Stores pages, each in place of what was stored under its URL before. Of two with one URL the one that was crawled
    /// later counts, in whatever order they come, and of two that were crawled at the same time the later arrival; a page
    /// that was crawled before its URL was removed is left out ([`precedence`]). When this returns they are
    /// durable and can be found. A failed call may have stored some of them.
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError>;

    /// Finds pages.
    async fn search(&self, search: &Search) -> Result<Results, SearchError>;

    /// The page of this URL.
    async fn get(&self, url: &str) -> Result<Option<IndexedPage>, StoreError>;

    /// How many pages there are.
    async fn count(&self) -> Result<u64, StoreError>;

    /// All pages in order of URL (by its octets), up to so many after this URL, stored or not: for running a stage again from what is stored.
    async fn scan(&self, after: Option<&str>, most: usize) -> Result<Vec<IndexedPage>, StoreError>;

    /// Pages that match the query in order of URL (by its octets), up to so many after this URL. Unlike a search it goes as far
    /// as there are pages, and ranks and folds nothing.
    async fn matching(
        &self,
        query: &Query,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<IndexedPage>, StoreError>;

    /// Removes pages and says how many there were. `gone_at` is when it was seen that they are gone, and leaves pages that
    /// were crawled later; without it they are removed now, whenever they were crawled. Each removed URL keeps a tombstone of that time for
    /// [`TOMBSTONE_RETENTION`](precedence::TOMBSTONE_RETENTION), whether or not there was a page: only a page that was
    /// crawled after it brings the URL back, and a redelivered older message does not.
    async fn remove(&self, urls: &[String], gone_at: Option<Timestamp>) -> Result<u64, StoreError>;

    /// Waits for background work, such as merging, to end, and lets go of files and locks.
    async fn close(&self) -> Result<(), StoreError>;
}

/// The longest URL of a page, in bytes.
pub const LONGEST_URL: usize = 32_768;

/// A page as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedPage {
    /// The item that brought it.
    pub item: String,
    /// Its URL, in its normal form.
    pub url: String,
    /// Its host, as `host:` finds it.
    pub host: String,
    /// Its title, empty when it has none.
    pub title: String,
    /// Its description.
    pub description: Option<String>,
    /// Its main text, as people read it: with its case and, in lines, its paragraphs. In lower case if nothing else is known.
    pub text: String,
    /// When it was crawled.
    pub crawled_at: Timestamp,
    /// The status it was answered with.
    pub status_code: u16,
    /// The SimHash of its text.
    pub simhash: u64,
}

impl IndexedPage {
    /// Refuses a page whose URL is empty or too long, which not every backend could store.
    pub fn check(&self) -> Result<(), StoreError> {
        let length = self.url.len();
        if (1..=LONGEST_URL).contains(&length) {
            return Ok(());
        }
        let start: String = self.url.chars().take(60).collect();
        let problem =
            format!("the URL `{start}…` has {length} bytes; pages with 1 to {LONGEST_URL} can be stored");
        Err(StoreError::Invalid { problem })
    }

    /// What `host:` finds it by: its host and each domain above it, `www.example.org`, `example.org` and `org`. An
    /// address is only itself.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        domains::domains(&self.host)
    }
}
