//! The seen-URL store: URLs that were crawled recently, and claims on URLs that are being crawled.
//!
//! ```text
//! (unknown) ──claim──▶ claimed by an owner ──mark──▶ seen ──TTL ends──▶ (unknown)
//!     ▲                      │
//!     └── release, or the claim expires
//! ```

use crate::{StoreError, Timestamp};
use std::{fmt::Debug, time::Duration};

/// Seen-URL store: URLs that must not be crawled again before their TTL ends. Shared by all workers.
///
/// A batch is answered in order, one answer per element, and every call is idempotent. A URL may occur more than once
/// in a batch; its elements take effect one after the other.
#[async_trait::async_trait]
pub trait SeenUrls: Debug + Send + Sync {
    /// Claims each URL for its owner for the given TTL. A claim by the same owner renews it. A seen mark older than
    /// [`Claim::max_age`] is ignored.
    async fn claim(&self, claims: &[Claim], ttl: Duration) -> Result<Vec<ClaimOutcome>, StoreError>;

    /// Marks each URL as seen, claimed or not. A later mark replaces an earlier one and ends any claim.
    async fn mark(&self, seen: &[SeenUrl]) -> Result<(), StoreError>;

    /// Releases claims. Claims of other owners and seen marks are unaffected.
    async fn release(&self, claims: &[Claim]) -> Result<(), StoreError>;

    /// Whether other programs may delete entries, so that a crawled page may be unknown before its TTL ends.
    fn allows_external_deletes(&self) -> bool {
        false
    }

    /// Whether each URL is seen or claimed. Read-only.
    async fn contains(&self, urls: &[String]) -> Result<Vec<bool>, StoreError>;

    /// Deletes URLs, so that they may be crawled at once. Returns how many were seen or claimed.
    async fn forget(&self, urls: &[String]) -> Result<u64, StoreError>;

    /// Deletes up to `max` expired entries to reclaim their space. Returns how many. Backends with a TTL of their own
    /// return 0.
    async fn purge_expired(&self, max: usize) -> Result<u64, StoreError>;
}

/// Claim on a URL, to crawl it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The URL, in its normal form.
    pub url: String,
    /// The owner, such as `ITEM@CRAWL`; opaque to the store.
    pub owner: String,
    /// Age from which on a seen mark is ignored. [`Duration::ZERO`] ignores every mark, [`Duration::MAX`] none.
    pub max_age: Duration,
}

impl Claim {
    /// A claim that respects every seen mark.
    pub fn new(url: impl Into<String>, owner: impl Into<String>) -> Self {
        Self { url: url.into(), owner: owner.into(), max_age: Duration::MAX }
    }
}

/// Outcome of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The URL is claimed by the owner.
    Granted,
    /// The URL was crawled, by another item or by an earlier attempt of this one.
    Seen {
        /// The item that crawled it.
        owner: String,
        /// When it was marked, if known.
        at: Option<Timestamp>,
        /// When the mark expires.
        until: Timestamp,
    },
    /// The URL is claimed by another owner.
    Taken {
        /// The item that holds the claim.
        owner: String,
        /// When the claim expires unless it is renewed.
        until: Timestamp,
    },
}

/// A URL that was crawled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenUrl {
    /// The URL, in its normal form.
    pub url: String,
    /// The item that crawled it.
    pub owner: String,
    /// How long it must not be crawled again, from now on.
    pub ttl: Duration,
}
