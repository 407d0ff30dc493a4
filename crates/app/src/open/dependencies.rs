//! Dependencies of a process: name, backend and health probe of each.

use super::StageLeases;
use crate::{
    config::{Config, IndexKind, InventoryKind, RateLimitKind, RecordKind, RequestKind, SeenKind},
    flows::{Store, StoreSet},
    opening::STAGE_LEASE,
    role::Role,
};
use crawlway_gateway::{DependencySpec, Probe};
use crawlway_store::{PageIndex, RateLimiter, RequestStore, SeenUrls, StoreError, UrlRecords, seen::Claim};
use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

const EMBEDDED: &str = "embedded";
const POSTGRESQL: &str = "postgresql";
const REDIS: &str = "redis";
const MONGODB: &str = "mongodb";

/// How much is written to see whether that works, in bytes.
const SAMPLE: usize = 4 << 10;

/// Dependencies of a process that needs these stores.
pub(crate) fn dependencies(config: &Config, role: &Role, needs: &StoreSet) -> Vec<DependencySpec> {
    let brokers = config.brokers_in_use(&role.modules());
    let brokers = brokers
        .iter()
        .map(|broker| DependencySpec { name: broker.dependency(), backend: broker.settings.backend() });
    let with_records = needs.iter().any(|store| is_with_records(config, *store));
    let records = with_records.then(|| DependencySpec { name: "records", backend: records_backend(config) });
    let others = needs.iter().filter_map(|store| {
        let name = dependency_name(*store)?;
        Some(DependencySpec { name, backend: backend(config, *store) })
    });
    let lease =
        StageLeases::backend(config, role).map(|backend| DependencySpec { name: STAGE_LEASE, backend });
    brokers.chain(records).chain(others).chain(lease).collect()
}

/// Names of the dependencies that are open with the records.
pub(crate) fn dependency_names(with_records: &StoreSet) -> Vec<&'static str> {
    ["records"].into_iter().chain(with_records.iter().filter_map(|store| dependency_name(*store))).collect()
}

/// Name of a store among the dependencies; none for those that are the records themselves.
fn dependency_name(store: Store) -> Option<&'static str> {
    match store {
        Store::Frontier | Store::Trails => None,
        Store::Seen => Some("seen"),
        Store::RateLimiter => Some("rate_limiter"),
        Store::Inventory => Some("inventory"),
        Store::Requests => Some("requests"),
        Store::Index => Some("index"),
    }
}

/// Whether a store is in the database of the records.
pub(crate) fn is_with_records(config: &Config, store: Store) -> bool {
    match store {
        Store::Frontier | Store::Trails => true,
        Store::Seen => config.seen.kind == SeenKind::Records,
        Store::RateLimiter => config.rate_limit.kind == RateLimitKind::Postgresql,
        Store::Inventory => config.inventory.store == InventoryKind::Records,
        Store::Requests => config.requests.store == RequestKind::Records,
        Store::Index => config.search.index == IndexKind::Postgresql,
    }
}

fn records_backend(config: &Config) -> &'static str {
    match config.records.kind {
        RecordKind::Embedded => EMBEDDED,
        RecordKind::Postgresql => POSTGRESQL,
    }
}

fn backend(config: &Config, store: Store) -> &'static str {
    if is_with_records(config, store) {
        return records_backend(config);
    }
    match store {
        Store::Seen | Store::Requests => REDIS,
        Store::RateLimiter if config.rate_limit.kind == RateLimitKind::Redis => REDIS,
        Store::Inventory => MONGODB,
        _ => EMBEDDED,
    }
}

/// Asks seen URLs that are on a server of their own. Nothing is changed: there is no claim on what is no URL.
pub(crate) fn seen_probe(seen: Arc<dyn SeenUrls>) -> Probe {
    Probe::new(move || {
        let seen = seen.clone();
        async move { seen.release(&[Claim::new("", "")]).await }
    })
}

/// Asks records of URLs that are on a server of their own.
pub(crate) fn urls_probe(urls: Arc<dyn UrlRecords>) -> Probe {
    Probe::new(move || {
        let urls = urls.clone();
        async move { urls.ready().await }
    })
}

/// Asks requests of users that are on a server of their own.
pub(crate) fn requests_probe(requests: Arc<dyn RequestStore>) -> Probe {
    Probe::new(move || {
        let requests = requests.clone();
        async move { requests.ready().await }
    })
}

/// Readiness probe of a rate limiter outside the database of the records.
pub(crate) fn rate_limiter_probe(rate_limiter: Arc<dyn RateLimiter>) -> Probe {
    Probe::new(move || {
        let rate_limiter = rate_limiter.clone();
        async move { rate_limiter.tracked_groups().await }
    })
}

/// Asks a search index that is not in the database of the records.
pub(crate) fn index_probe(index: Arc<dyn PageIndex>, config: &Config) -> Probe {
    let data = config.data_dir.clone();
    Probe::new(move || {
        let (index, data) = (index.clone(), data.clone());
        async move {
            index.count().await?;
            can_be_written(data).await
        }
    })
}

/// Whether the disk with the data directory takes anything. What is written has no name, and nothing of it is left. The error does
/// not say where that is, since strangers may read it.
pub(super) async fn can_be_written(data: PathBuf) -> Result<(), StoreError> {
    let write = move || tempfile::tempfile_in(data)?.write_all(&[0; SAMPLE]);
    let written = tokio::task::spawn_blocking(write).await;
    let failed = match written {
        Ok(Ok(())) => return Ok(()),
        // Without the name that was tried, which is in the text of the error.
        Ok(Err(error)) => match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code).to_string(),
            None => error.kind().to_string(),
        },
        Err(_) => "the attempt broke".to_owned(),
    };
    Err(StoreError::Unavailable { detail: format!("the data directory cannot be written: {failed}") })
}
