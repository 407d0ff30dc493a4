//! Crawls: settings, state and counts.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Error of an invalid crawl id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid crawl id; use 1 to 64 letters, digits, `-`, `_` or `.`")]
pub struct CrawlIdError(String);

/// Id of a crawl: a unique name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CrawlId(Arc<str>);

impl CrawlId {
    /// A validated id.
    pub fn new(id: &str) -> Result<Self, CrawlIdError> {
        let is_valid = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
        if id.is_empty() || id.len() > 64 || !id.bytes().all(is_valid) {
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

/// A crawl to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCrawl {
    /// Its id.
    pub id: CrawlId,
    /// Definition of the crawl, encoded by the flow; opaque to the store.
    pub definition: String,
    /// Page limit; `None` for no limit.
    pub max_pages: Option<u64>,
}

/// New settings of an existing crawl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSettings {
    /// Expected current revision. The update is refused if it differs (optimistic concurrency), so that no change is
    /// lost.
    pub expected_revision: u64,
    /// New definition, encoded by the flow; opaque to the store.
    pub definition: String,
    /// New page limit; `None` for no limit.
    pub max_pages: Option<u64>,
}

/// A crawl with its state and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crawl {
    /// Its id.
    pub id: CrawlId,
    /// Definition of the crawl, encoded by the flow.
    pub definition: String,
    /// Page limit.
    pub max_pages: Option<u64>,
    /// Revision of the settings. It grows with every change, also across deletion and re-creation under the same id.
    pub revision: u64,
    /// State.
    pub state: CrawlState,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was finished, limited or cancelled.
    pub ended_at: Option<Timestamp>,
    /// Counts of its URLs.
    pub counts: CrawlCounts,
}

/// State of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrawlState {
    /// URLs are being fetched.
    Running,
    /// Paused until it is set running again. URLs in flight are finished.
    Paused,
    /// Cancelled before it was done. URLs in flight are finished.
    Cancelled,
    /// No URL is left to fetch.
    Finished,
    /// The page limit is reached and URLs are left.
    Limited,
}

impl CrawlState {
    /// All values.
    pub const ALL: [CrawlState; 5] =
        [Self::Running, Self::Paused, Self::Cancelled, Self::Finished, Self::Limited];

    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Finished => "finished",
            Self::Limited => "limited",
        }
    }

    /// Whether the crawl has ended: finished, limited or cancelled.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Finished | Self::Limited | Self::Cancelled)
    }

    /// Parses a stored name.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl fmt::Display for CrawlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Counts of the URLs of a crawl, by state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CrawlCounts {
    /// Pending URLs.
    pub waiting: u64,
    /// URLs in flight.
    pub in_flight: u64,
    /// URLs that are done.
    pub done: u64,
    /// Dead URLs.
    pub dead: u64,
    /// Done URLs that were fetched, which the page limit counts. A reopened URL counts again once it is done again.
    pub fetched: u64,
    /// Completions by outcome, including those after a reopening.
    pub outcomes: BTreeMap<String, u64>,
    /// URLs that were not added, by reason, such as a used-up budget.
    pub left_out: BTreeMap<String, u64>,
}

impl CrawlCounts {
    /// Number of all URLs of the crawl.
    pub fn total(&self) -> u64 {
        self.waiting + self.in_flight + self.done + self.dead
    }
}
