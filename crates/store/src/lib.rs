//! The store contracts: small traits in the terms of the flows, which every backend implements.
//!
//! Each contract has a conformance suite in `crawlway-store-conformance` that every backend passes. The contracts are
//! about items, URLs and pages; fetching and parsing are not their concern. The [`Ledger`] serves brokers instead of flows.

pub mod blobs;
mod bloom_filter;
mod error;
pub mod frontier;
pub mod inventory;
pub mod ledger;
pub mod outage;
pub mod pages;
pub mod rate_limiter;
pub mod requests;
pub mod runs;
pub mod seen;
pub mod tokens;
pub mod trails;

pub use blobs::BlobStore;
pub use bloom_filter::BloomFilter;
pub use crawlway_clock::{Clock, ManualClock, Timestamp};
pub use crawlway_suspects as suspects;
pub use error::StoreError;
pub use frontier::{CrawlId, Frontier, FrontierPolicy};
pub use inventory::UrlRecords;
pub use ledger::{Ledger, LedgerPolicy};
pub use pages::{IndexedPage, PageIndex};
pub use rate_limiter::{
    Group, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome, Reservation,
    Ticket, WaitReason,
};
pub use requests::{RequestPolicy, RequestStore};
pub use runs::RunStore;
pub use seen::SeenUrls;
pub use tokens::{TokenHash, TokenRecord, TokenRole, Tokens};
pub use trails::{AttemptEnd, TrailEntry, Trails};
