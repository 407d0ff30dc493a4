//! Search requests and results, as shared by the command line and the API.

use super::snippet::snippet;
use crate::{IndexedPage, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

/// Search request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// The query text, see [`query`](super::query).
    pub query: String,
    /// Number of hits to skip.
    pub offset: usize,
    /// Maximum number of hits to return.
    pub limit: usize,
    /// Whether near-duplicates are collapsed into the best hit.
    pub collapse_duplicates: bool,
}

impl SearchRequest {
    /// Maximum of `limit`.
    pub const MAX_HITS: usize = 1_000;

    /// Maximum of `offset + limit`.
    pub const MAX_RESULT_WINDOW: usize = 10_000;

    /// The first ten hits, with near-duplicates collapsed.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), offset: 0, limit: 10, collapse_duplicates: true }
    }

    /// Validates `limit` and `offset`.
    pub fn check(&self) -> Result<(), SearchError> {
        let Self { offset, limit, .. } = *self;
        let problem = if limit > Self::MAX_HITS {
            format!("the limit is {limit}; ask for at most {} hits at a time", Self::MAX_HITS)
        } else if offset.saturating_add(limit) > Self::MAX_RESULT_WINDOW {
            format!(
                "hits up to number {} are shown, and offset {offset} with limit {limit} goes beyond; narrow the query",
                Self::MAX_RESULT_WINDOW
            )
        } else {
            return Ok(());
        };
        Err(StoreError::Invalid { problem }.into())
    }

    /// Number of hits to find: one more than is returned, to know whether there is a next page.
    pub fn needed_hits(&self) -> usize {
        self.offset.saturating_add(self.limit).saturating_add(1)
    }

    /// Offset of the next page, if this many hits were found.
    pub fn next_offset(&self, found: usize) -> Option<usize> {
        let next = self.offset.saturating_add(self.limit);
        (found > next && self.limit > 0 && next < Self::MAX_RESULT_WINDOW).then_some(next)
    }
}

/// Search results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResults {
    /// Number of matching pages, including collapsed ones.
    pub total: u64,
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// Offset of the next page, if there is one.
    pub next_offset: Option<usize>,
}

/// A page that matches the query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Its URL.
    pub url: String,
    /// Its host.
    pub host: String,
    /// Its title.
    pub title: String,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Excerpt of its text with the terms of the query highlighted, as HTML with everything escaped but `<mark>`.
    pub snippet: String,
    /// Relevance score, comparable within one search only.
    pub score: f32,
    /// When it was crawled.
    pub crawled_at: Timestamp,
    /// HTTP status of the response.
    pub status_code: u16,
    /// The item it came from.
    pub item: String,
    /// SimHash of its text, as the signed integer that is stored.
    pub simhash: i64,
    /// Near-duplicates that were collapsed into this hit, best first, possibly not all of them.
    pub duplicates: Vec<Duplicate>,
}

impl Hit {
    /// A hit with a snippet in which these terms are highlighted.
    pub fn new(page: IndexedPage, score: f32, terms: &[Vec<String>], duplicates: Vec<Duplicate>) -> Self {
        Self {
            snippet: snippet(&page.text, terms),
            url: page.url,
            host: page.host,
            title: page.title,
            description: page.description,
            score,
            crawled_at: page.crawled_at,
            status_code: page.status_code,
            item: page.item,
            simhash: page.simhash.cast_signed(),
            duplicates,
        }
    }
}

/// A near-duplicate that was collapsed into a better hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// Its URL.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Hamming distance of the SimHash values.
    pub distance: u32,
}

/// Error of a search.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query is invalid.
    #[error("cannot read the query at character {at}: {problem}")]
    Query {
        /// Position in the query, in characters from 1.
        at: usize,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
