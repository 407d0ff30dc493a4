//! The search index: pages by what they say.

mod domains;
pub mod near;
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
    /// Stores pages, each in place of what was stored under its URL before; of two with one URL the later counts.
    /// When this returns they are durable and can be found. A failed call may have stored some of them.
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError>;

    /// Finds pages.
    async fn search(&self, search: &Search) -> Result<Results, SearchError>;

    /// The page of this URL.
    async fn get(&self, url: &str) -> Result<Option<IndexedPage>, StoreError>;

    /// How many pages there are.
    async fn count(&self) -> Result<u64, StoreError>;

    /// All pages in order of URL (by its octets), up to so many after this URL, stored or not: for running a stage again from what is stored.
    async fn scan(&self, after: Option<&str>, most: usize) -> Result<Vec<IndexedPage>, StoreError>;

    /// Removes pages and says how many there were.
    async fn remove(&self, urls: &[String]) -> Result<u64, StoreError>;

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
    /// Its main text.
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
