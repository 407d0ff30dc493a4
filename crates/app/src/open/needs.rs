//! Which parts a process needs, what each is kept in, and how it is asked whether it is in order.

use crate::{
    config::{Config, IndexKind, InventoryKind, RateLimitKind, RecordKind, SeenKind},
    worker::Roles,
};
use crawlway_gateway::{DependencySpec, Probe};
use crawlway_store::{PageIndex, RateLimiter, SeenUrls, StoreError, UrlRecords, seen::Claim};
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

/// The parts that a process with these stages needs.
pub(crate) fn needs(config: &Config, runs: Roles) -> Vec<DependencySpec> {
    let records = match config.records.kind {
        RecordKind::Embedded => EMBEDDED,
        RecordKind::Postgresql => POSTGRESQL,
    };
    let seen = match config.seen.kind {
        SeenKind::Records => records,
        SeenKind::Redis => REDIS,
    };
    let rate_limiter = match config.rate_limit.kind {
        RateLimitKind::Embedded => EMBEDDED,
        RateLimitKind::Redis => REDIS,
        RateLimitKind::Postgresql => POSTGRESQL,
    };
    let inventory = match config.inventory.store {
        InventoryKind::Records => records,
        InventoryKind::Mongodb => MONGODB,
    };
    let index = match config.search.index {
        IndexKind::Embedded => EMBEDDED,
        IndexKind::Postgresql => POSTGRESQL,
    };
    let all = [
        ("broker", config.broker.backend(), true),
        ("records", records, true),
        ("seen", seen, runs.uses_seen_urls()),
        ("rate_limiter", rate_limiter, runs.uses_rate_limiter()),
        ("inventory", inventory, runs.uses_inventory()),
        ("index", index, runs.uses_index()),
    ];
    let needed = all.into_iter().filter(|(.., needed)| *needed);
    needed.map(|(name, backend, _)| DependencySpec { name, backend }).collect()
}

/// The parts that a gateway for the flow `inventory` alone needs.
pub(crate) fn needs_of_inventory_alone(config: &Config) -> Vec<DependencySpec> {
    let runs = Roles { gateway: true, ..Roles::none() };
    let mut needs = needs(config, runs);
    needs.retain(|need| ["broker", "inventory"].contains(&need.name));
    needs
}

/// The parts that are kept with the records, and are there with them.
pub(crate) fn kept_with_records(config: &Config) -> impl Iterator<Item = &'static str> {
    let all = [
        ("seen", config.seen.kind == SeenKind::Records),
        ("rate_limiter", config.rate_limit.kind == RateLimitKind::Postgresql),
        ("inventory", config.inventory.store == InventoryKind::Records),
        ("index", config.search.index == IndexKind::Postgresql),
    ];
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name)
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
