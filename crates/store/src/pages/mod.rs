//! The page index: full-text search over crawled pages.

pub mod near_duplicates;
pub mod precedence;
pub mod query;
mod results;
pub mod snippet;
pub mod tokenizer;

pub use query::Query;
pub use results::{Duplicate, Hit, SearchError, SearchRequest, SearchResults};

use crate::{StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::{fmt::Debug, sync::Arc};

/// Page index: full-text search over pages, keyed by URL.
#[async_trait::async_trait]
pub trait PageIndex: Debug + Send + Sync {
    /// Upserts pages by URL. Of two versions the one crawled later counts, in whatever order they arrive; at the same
    /// crawl time the later arrival. A page crawled before its URL was removed is ignored ([`precedence`]). When this
    /// returns, the pages are durable and searchable. A failed call may have stored some of them.
    async fn write(&self, pages: Arc<[IndexedPage]>) -> Result<(), StoreError>;

    /// Searches for pages.
    async fn search(&self, search: &SearchRequest) -> Result<SearchResults, SearchError>;

    /// The page with this URL.
    async fn get(&self, url: &str) -> Result<Option<IndexedPage>, StoreError>;

    /// Number of pages.
    async fn count(&self) -> Result<u64, StoreError>;

    /// Up to `max` pages in byte order of their URLs, after this URL, which need not exist. For re-running a stage over
    /// the stored pages.
    async fn scan(&self, after: Option<&str>, max: usize) -> Result<Vec<IndexedPage>, StoreError>;

    /// Up to `max` pages that match the query, in byte order of their URLs, after this URL. Unlike a search it reaches all
    /// matches, and neither ranks nor collapses near-duplicates.
    async fn scan_matching(
        &self,
        query: &Query,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<IndexedPage>, StoreError>;

    /// Removes pages. Returns how many existed. With `gone_at`, the time at which the pages were found to be gone, pages
    /// crawled later are kept; without it the pages are removed whenever they were crawled. Each URL gets a tombstone of
    /// that time for [`TOMBSTONE_RETENTION`](precedence::TOMBSTONE_RETENTION), whether or not it had a page. Only a page
    /// crawled after it brings the URL back; a redelivered older message does not.
    async fn remove(&self, urls: &[String], gone_at: Option<Timestamp>) -> Result<u64, StoreError>;

    /// Waits for background work, such as segment merges, and releases files and locks.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Maximum length of a page's URL, in bytes.
pub const MAX_URL_BYTES: usize = 32_768;

/// A page of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedPage {
    /// The item it came from.
    pub item: String,
    /// Its URL, in its normal form.
    pub url: String,
    /// Its host, for `host:` queries.
    pub host: String,
    /// Its title, or empty.
    pub title: String,
    /// Its description.
    pub description: Option<String>,
    /// Its main text, with its case, one paragraph per line. In lower case if the source has nothing else.
    pub text: String,
    /// When it was crawled.
    pub crawled_at: Timestamp,
    /// HTTP status of the response.
    pub status_code: u16,
    /// The SimHash of its text.
    pub simhash: u64,
}

impl IndexedPage {
    /// Refuses a page with an empty URL, or one too long for some backend.
    pub fn check(&self) -> Result<(), StoreError> {
        let length = self.url.len();
        if (1..=MAX_URL_BYTES).contains(&length) {
            return Ok(());
        }
        let start: String = self.url.chars().take(60).collect();
        let problem =
            format!("the URL `{start}…` has {length} bytes; pages with 1 to {MAX_URL_BYTES} can be stored");
        Err(StoreError::Invalid { problem })
    }

    /// Host and its parent domains, for `host:` queries: `www.example.org`, `example.org` and `org`. An IP address has no
    /// parents.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        parent_domains(&self.host)
    }
}

fn parent_domains(host: &str) -> impl Iterator<Item = &str> {
    let host = host.trim_end_matches('.');
    let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    std::iter::successors(Some(host), move |domain| {
        if is_address { None } else { domain.split_once('.').map(|(_, parent)| parent) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_parent_domains_and_an_address_has_none() {
        let domains = |host| parent_domains(host).collect::<Vec<_>>();
        assert_eq!(domains("www.example.org."), ["www.example.org", "example.org", "org"]);
        for host in ["127.0.0.1", "[2001:db8::1]", "localhost"] {
            assert_eq!(domains(host), [host]);
        }
    }
}
