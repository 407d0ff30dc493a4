//! What is searched for, and what is found: the shape that the command line, the API and the console share.

use super::snippet::snippet;
use crate::{IndexedPage, StoreError, Timestamp};
use serde::{Deserialize, Serialize};

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The query as it was typed; [`query`](super::query) says how it is read.
    pub query: String,
    /// How many hits to pass over.
    pub offset: usize,
    /// How many hits to show.
    pub limit: usize,
    /// Whether near-duplicates of a better hit are folded into it.
    pub fold: bool,
}

impl Search {
    /// The most hits in one part.
    pub const MOST_HITS: usize = 1_000;

    /// How far into the hits one can go: the last hit that can be shown is this one.
    pub const DEEPEST: usize = 10_000;

    /// The first ten hits, with near-duplicates folded.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), offset: 0, limit: 10, fold: true }
    }

    /// Refuses a part that is too large or too far into the hits.
    pub fn check(&self) -> Result<(), SearchError> {
        let Self { offset, limit, .. } = *self;
        let problem = if limit > Self::MOST_HITS {
            format!("the limit is {limit}; ask for at most {} hits at a time", Self::MOST_HITS)
        } else if offset.saturating_add(limit) > Self::DEEPEST {
            format!(
                "hits up to number {} are shown, and offset {offset} with limit {limit} goes beyond; narrow the query",
                Self::DEEPEST
            )
        } else {
            return Ok(());
        };
        Err(StoreError::Invalid { problem }.into())
    }

    /// How many hits are looked for: one more than is shown, to know whether there is more.
    pub fn wanted(&self) -> usize {
        self.offset.saturating_add(self.limit).saturating_add(1)
    }

    /// Where the next part begins, if so many hits were found of those that were looked for.
    pub fn next_offset(&self, found: usize) -> Option<usize> {
        let next = self.offset.saturating_add(self.limit);
        (found > next && self.limit > 0 && next < Self::DEEPEST).then_some(next)
    }
}

/// What is found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// How many pages match, those folded included.
    pub total: u64,
    /// The hits of this part, best first.
    pub hits: Vec<Hit>,
    /// Where the next part begins, if there is one.
    pub next_offset: Option<usize>,
}

/// A page that was found.
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
    /// A part of its text in which the words of the query are marked: HTML in which everything is escaped but
    /// `<mark>`.
    pub snippet: String,
    /// How well it fits; only comparable within one search.
    pub score: f32,
    /// When it was crawled.
    pub crawled_at: Timestamp,
    /// The status it was answered with.
    pub status_code: u16,
    /// The item that brought it.
    pub item: String,
    /// The SimHash of its text, as the signed integer that is stored.
    pub simhash: i64,
    /// Hits that are near-duplicates of this one and were folded into it, best first, some of them.
    pub duplicates: Vec<Duplicate>,
}

impl Hit {
    /// A page that was found, with these sequences of words marked in its snippet.
    pub fn new(page: IndexedPage, score: f32, marked: &[Vec<String>], duplicates: Vec<Duplicate>) -> Self {
        Self {
            snippet: snippet(&page.text, marked),
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

/// A hit that was folded into a better one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// Its URL.
    pub url: String,
    /// Its title.
    pub title: String,
    /// In how many bits its SimHash differs.
    pub distance: u32,
}

/// Why a search failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query cannot be read.
    #[error("cannot read the query at character {at}: {problem}")]
    Query {
        /// Where in the query, in characters from 1.
        at: usize,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
