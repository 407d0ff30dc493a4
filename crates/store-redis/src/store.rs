//! The store: one connection, the key names, and the contracts on it.

use crate::{
    connection::Link,
    options::{ClockSource, RedisOptions},
    rate_limiter::{self, RedisRateLimiter},
    script::Script,
};
use crawlway_store::{RateLimitPolicy, RateLimiterError, StoreError};
use std::sync::Arc;

/// Store on a Redis server. Clones share one connection.
#[derive(Debug, Clone)]
pub struct RedisStore(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) clock: ClockSource,
    pub(crate) seen: Script,
    pub(crate) prefix: String,
}

impl RedisStore {
    /// Opens the store, and waits for an unavailable server. Refuses an invalid URL or prefix, and an unsuitable server:
    /// one before version 7, or one that evicts keys.
    pub async fn connect(options: RedisOptions) -> Result<Self, StoreError> {
        options.check()?;
        let prefix = options.prefix.clone();
        let link = Link::new(&options)?;
        link.open(options.open_timeout).await?;
        let seen = Script::new(&prefix, &[include_str!("seen.lua")]);
        Ok(Self(Arc::new(Shared { link, clock: options.clock, seen, prefix })))
    }

    /// The rate limiter on this store. All processes with the same prefix share it, and should have the same policy.
    pub async fn rate_limiter(&self, policy: RateLimitPolicy) -> Result<RedisRateLimiter, RateLimiterError> {
        rate_limiter::open(self.clone(), policy).await
    }
}

impl RedisOptions {
    /// Validates the URL and the prefix, without a connection.
    pub fn check(&self) -> Result<(), StoreError> {
        let prefix = &self.prefix;
        if prefix.is_empty()
            || prefix.len() > 64
            || prefix.chars().any(|c| c.is_control() || "{}".contains(c))
        {
            return Err(StoreError::Invalid {
                problem: format!(
                    "the prefix of the keys is `{}`; use 1 to 64 bytes without braces and control characters",
                    prefix.escape_debug()
                ),
            });
        }
        Ok(Link::new(self).map(drop)?)
    }
}

impl Shared {
    /// Full name of a key. The braces put all keys into one hash slot of a cluster.
    pub(crate) fn key(&self, rest: &str) -> String {
        format!("{{{}}}:{rest}", self.prefix)
    }
}
