//! HTTP client of all flows: SSRF guard, robots.txt, sitemaps, rate limits, and bounds on time and memory for every response.
//!
//! ```text
//! request ─▶ robots.txt ─▶ rate limiter ─▶ connection: pooled, or resolved, checked and dialled ─▶ response
//!    ▲                                                                                                │
//!    └────────────────────────────────────── redirect ◀───────────────────────────────────────────────┘
//! ```

mod blocks;
mod body;
mod budget;
mod client;
mod connect;
mod error;
mod exchange;
mod flood;
mod guard;
mod host_delays;
mod limits;
mod memory;
mod origins;
mod outcomes;
mod permit;
mod pool;
mod redirects;
mod request;
mod request_log;
pub mod resolve;
pub mod robots;
mod robots_cache;
mod robots_outage;
mod site_cache;
pub mod sitemap;
mod sitemaps;
mod tls;

pub use client::{Fetcher, FetcherConfig};
pub use crawlway_tls::RootError;
pub use error::{FetchCode, FetchError};
pub use guard::{AllowedRange, AllowedRangeError, SsrfGuard};
pub use host_delays::{DelayCause, HostDelay};
pub use limits::Limits;
pub use memory::{MemoryBudget, MemoryError, MemoryReservation};
pub use pool::PoolLimits;
pub use request::{
    FetchResponse, Hop, Identity, IdentityError, OnRateLimit, Request, Timing, USER_AGENT, Validators,
};
pub use sitemaps::{
    SitemapFile, SitemapFileError, SitemapLimits, SitemapPage, SitemapRead, SitemapWalk, Sitemaps,
};
