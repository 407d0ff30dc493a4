//! Embedded stores: the contracts of `crawlway-store` inside one process, without a server.

mod rate_limiter;

pub use rate_limiter::{EmbeddedRateLimiter, RateLimiterOptions};
