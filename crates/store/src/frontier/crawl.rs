//! A crawl: what was asked for, and how far it is.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Why a crawl's id was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a crawl; use 1 to 64 letters, digits, `-`, `_` or `.`")]
pub struct CrawlIdError(String);

/// The name of a crawl, which is its identity. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CrawlId(Arc<str>);

impl CrawlId {
    /// Checks the id and takes it.
    pub fn new(id: &str) -> Result<Self, CrawlIdError> {
        let fits = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
        if id.is_empty() || id.len() > 64 || !id.bytes().all(fits) {
            return Err(CrawlIdError(id.chars().filter(|c| !c.is_control()).take(64).collect()));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CrawlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CrawlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl TryFrom<String> for CrawlId {
    type Error = CrawlIdError;
    fn try_from(id: String) -> Result<Self, CrawlIdError> {
        Self::new(&id)
    }
}

impl From<CrawlId> for String {
    fn from(id: CrawlId) -> String {
        id.0.to_string()
    }
}

/// A crawl to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCrawl {
    /// Its id.
    pub id: CrawlId,
    /// What was asked for, in the flow's own words; never looked into.
    pub definition: String,
    /// How many pages may be fetched; `None` for any number.
    pub max_pages: Option<u64>,
}

/// New terms for a crawl that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTerms {
    /// The revision that they replace: with another one in force they are refused, so that no change is lost.
    pub replaces: u64,
    /// What is asked for now, in the flow's own words; never looked into.
    pub definition: String,
    /// How many pages may be fetched now; `None` for any number.
    pub max_pages: Option<u64>,
}

/// A crawl and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crawl {
    /// Its id.
    pub id: CrawlId,
    /// What was asked for, in the flow's own words.
    pub definition: String,
    /// How many pages may be fetched.
    pub max_pages: Option<u64>,
    /// The revision of its terms: greater with every change, and greater than any of a crawl of the same name that was
    /// deleted before.
    pub revision: u64,
    /// Whether it goes on.
    pub state: CrawlState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was finished, limited or cancelled.
    pub ended_at: Option<Timestamp>,
    /// How much was found and what became of it.
    pub counts: CrawlCounts,
}

/// Whether a crawl goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlState {
    /// It goes on.
    Running,
    /// It waits until it is set running again. What is in flight is finished.
    Paused,
    /// It was ended before it was done. What is in flight is finished.
    Cancelled,
    /// Nothing is left to do.
    Finished,
    /// The page limit is reached, and URLs are left that a higher limit would fetch.
    Limited,
}

impl CrawlState {
    /// All of them.
    pub const ALL: [CrawlState; 5] =
        [Self::Running, Self::Paused, Self::Cancelled, Self::Finished, Self::Limited];

    /// The word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Finished => "finished",
            Self::Limited => "limited",
        }
    }

    /// Whether it goes no further by itself: finished, limited or cancelled.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Limited | Self::Cancelled)
    }

    /// The state that a stored word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for CrawlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How much a crawl has found and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CrawlCounts {
    /// URLs that wait.
    pub waiting: u64,
    /// URLs that somebody is at.
    pub in_flight: u64,
    /// URLs that are done.
    pub done: u64,
    /// URLs that were given up.
    pub dead: u64,
    /// How many of the done were fetched, which is what the page limit counts. What waits again does not count
    /// until it is done again.
    pub fetched: u64,
    /// How often URLs were done, by outcome, those done again after a reopening included.
    pub outcomes: BTreeMap<String, u64>,
    /// How many URLs were left out, by reason, such as a budget's.
    pub left_out: BTreeMap<String, u64>,
}

impl CrawlCounts {
    /// All URLs the crawl knows.
    pub fn known(&self) -> u64 {
        self.waiting + self.in_flight + self.done + self.dead
    }
}
