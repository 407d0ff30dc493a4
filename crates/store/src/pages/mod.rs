//! The search index: pages by what they say.

pub mod query;
mod results;

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
