//! The store: one connection, the names of the keys, and what is opened on it.

use crate::{
    gate::RedisGate,
    link::Link,
    options::{RedisOptions, Time},
    script::Script,
    seen,
};
use crawlway_store::{GateError, Policy, StoreError};
use std::sync::Arc;

/// A Redis with our keys on it. Clones are handles on the same connection.
#[derive(Debug, Clone)]
pub struct RedisStore(pub(crate) Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) link: Link,
    pub(crate) time: Time,
    pub(crate) seen: Script,
    prefix: String,
}

impl RedisStore {
    /// Opens the store, waiting for a server that is not there yet. Refuses an address or a prefix that cannot be, and
    /// a server that could not hold the contracts: one before version 7, or one that drops keys when it is full.
    pub async fn connect(options: RedisOptions) -> Result<Self, StoreError> {
        options.check()?;
        let prefix = options.prefix.clone();
        let link = Link::new(&options)?;
        link.open(options.open_within).await?;
        let seen = Script::new(&prefix, seen::PARTS);
        Ok(Self(Arc::new(Parts { link, time: options.time, seen, prefix })))
    }

    /// The gate on this store. All gates of one prefix are one gate, and should have one policy.
    pub async fn gate(&self, policy: Policy) -> Result<RedisGate, GateError> {
        RedisGate::open(self.clone(), policy).await
    }
}

impl RedisOptions {
    /// Refuses an address or a prefix that cannot be. Asks no server.
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

impl Parts {
    /// A key of ours. The braces put all of them in one slot of a cluster.
    pub(crate) fn key(&self, rest: &str) -> String {
        format!("{{{}}}:{rest}", self.prefix)
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}
