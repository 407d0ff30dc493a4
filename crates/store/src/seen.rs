//! The URLs that were crawled lately, and those that somebody is crawling right now.
//!
//! ```text
//! (unknown) ──claim──▶ claimed by an owner ──mark──▶ seen ──its time is over──▶ (unknown)
//!     ▲                      │
//!     └── release, or the claim's time is over
//! ```

use crate::{StoreError, Timestamp};
use std::{fmt::Debug, time::Duration};

/// Which URLs need not be crawled again before a certain time. Shared by all workers.
///
/// Batches are answered in order, one answer per element, and every call may be repeated. Within one batch
/// a URL may occur more than once; the elements count one after the other.
#[async_trait::async_trait]
pub trait SeenUrls: Debug + Send + Sync {
    /// Claims each URL for its owner, for so long. An owner that claims again what it holds gets a new term. A mark
    /// that is older than the claim's [`max_age`](Claim::max_age) is no longer in the way.
    async fn claim(&self, claims: &[Claim], term: Duration) -> Result<Vec<Claimed>, StoreError>;

    /// Notes each URL as crawled, claimed before or not. The later of two notes counts, and ends any claim.
    async fn mark(&self, seen: &[Seen]) -> Result<(), StoreError>;

    /// Gives up claims. A claim of another owner and a URL that is seen stay as they are.
    async fn release(&self, claims: &[Claim]) -> Result<(), StoreError>;

    /// Whether others may delete what is kept here, so that a page which was crawled may be unknown before its time is over.
    fn is_open_to_others(&self) -> bool {
        false
    }

    /// Whether each URL is known, be it as seen or as claimed. Changes nothing.
    async fn known(&self, urls: &[String]) -> Result<Vec<bool>, StoreError>;

    /// Forgets URLs altogether, so that they may be crawled at once, and says how many were known, be it as seen
    /// or as claimed.
    async fn forget(&self, urls: &[String]) -> Result<u64, StoreError>;

    /// Throws away up to `most` records whose time is over, and says how many. They counted for nothing before;
    /// this only gives back their room. Backends whose records vanish by themselves answer 0.
    async fn sweep(&self, most: usize) -> Result<u64, StoreError>;
}

/// Somebody wants to crawl a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The URL, in its normal form.
    pub url: String,
    /// Who claims it: an item's id.
    pub owner: String,
    /// The age from which on a mark counts for nothing: a URL marked as seen so long ago can be claimed.
    /// [`Duration::ZERO`] claims whatever was seen, [`Duration::MAX`] leaves it to the marks.
    pub max_age: Duration,
}

impl Claim {
    /// A claim that every mark stands in the way of.
    pub fn new(url: impl Into<String>, owner: impl Into<String>) -> Self {
        Self { url: url.into(), owner: owner.into(), max_age: Duration::MAX }
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The URL is the owner's to crawl.
    Ours,
    /// Somebody else, or an earlier life of the owner, has crawled it.
    Seen {
        /// Whose item it was.
        owner: String,
        /// When it was marked, if that is known.
        at: Option<Timestamp>,
        /// When the mark ends.
        until: Timestamp,
    },
    /// Another owner is at it.
    Taken {
        /// Whose item it is.
        owner: String,
        /// When the claim ends unless it is renewed.
        until: Timestamp,
    },
}

/// A URL was crawled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The URL, in its normal form.
    pub url: String,
    /// Whose item it was.
    pub owner: String,
    /// How long it need not be crawled again, from now on.
    pub ttl: Duration,
}
