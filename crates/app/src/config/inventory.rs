//! `[inventory]`: settings of the flow `inventory`, its store and its cache.

use super::{
    secret::Secret,
    tls::TlsSettings,
    value::{ByteSize, Count, Span},
};
use crawlway_broker::{MaxLength, QueueSpec};
use crawlway_fetch::{Request, SsrfGuard};
use crawlway_flows::inventory::{InventorySettings, url_inventory};
use crawlway_gateway::InventoryOptions;
use serde::Deserialize;
use std::time::Duration;

/// Upper bound of `max_source`: a record with its headers must fit into every store.
const MAX_SOURCE: ByteSize = ByteSize(14 << 20);

/// Settings of the flow `inventory`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InventoryTable {
    broker: String,
    pub(crate) store: InventoryKind,
    max_length: Count,
    max_attempts: Count,
    max_robots_wait: Span,
    max_source: ByteSize,
    cache_ttl: Span,
    max_cache_size: ByteSize,
    max_accepted: Count,
    pub(crate) mongodb: MongoSettings,
}

/// Settings of MongoDB.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MongoSettings {
    pub(crate) url: Secret,
    pub(crate) database: String,
    pub(crate) collection: String,
    #[cfg_attr(not(feature = "mongodb"), expect(dead_code, reason = "only the backend reads it"))]
    pub(crate) connect_timeout: Span,
    pub(crate) tls: TlsSettings,
}

/// Store of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InventoryKind {
    /// The store of the other records.
    Records,
    /// Documents in MongoDB, which other programs can read.
    Mongodb,
}

impl InventoryTable {
    /// Name of the broker of the flow's queues; empty for that of all queues.
    pub(crate) fn broker(&self) -> &str {
        &self.broker
    }

    /// URL of the server, which must be set.
    #[cfg(feature = "mongodb")]
    pub(crate) fn set_url(&self) -> Result<&str, String> {
        super::secret::set(&self.mongodb.url, "inventory.store", "mongodb", "inventory.mongodb.url")
    }

    /// Specification of the URL queue with its maximum length.
    pub(crate) fn queue(&self, spec: QueueSpec) -> QueueSpec {
        spec.max_length(MaxLength::Exact(self.max_length.0.get().into()))
    }

    /// Settings of the flow, with this request as the template of its fetches.
    pub(crate) fn settings(&self, request: Request, drain: Duration) -> InventorySettings {
        InventorySettings {
            request: Request { robots_max_wait: self.max_robots_wait.0, ..request },
            max_attempts: self.max_attempts.0.get(),
            max_source_bytes: bytes(self.max_source),
            drain,
        }
    }

    /// Options of the flow's routes in the gateway.
    pub(crate) fn options(&self, guard: SsrfGuard) -> InventoryOptions {
        InventoryOptions {
            queue: url_inventory(),
            guard,
            cache_ttl: self.cache_ttl.0,
            cache_size: bytes(self.max_cache_size),
            max_accepted: usize::try_from(self.max_accepted.0.get()).unwrap_or(usize::MAX),
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.max_source > MAX_SOURCE {
            return Err("expected up to 14MiB".to_owned());
        }
        let MongoSettings { url, database, collection, .. } = &self.mongodb;
        let url = url.expose();
        if !url.is_empty() && !url.starts_with("mongodb://") && !url.starts_with("mongodb+srv://") {
            return Err("expected an address such as \"mongodb://user:password@host:27017/\"".to_owned());
        }
        if database.is_empty() || collection.is_empty() {
            return Err("expected a name that is not empty".to_owned());
        }
        self.mongodb.tls.check()
    }
}

fn bytes(ByteSize(bytes): ByteSize) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
