//! Opens the configured stores: records, seen URLs, the search index, the rate limiter.

use super::{mongodb, must_be_a_directory, needs, not_while_served, postgresql, redis};
use crate::{
    config::{Config, IndexKind, InventoryKind, RateLimitKind, RecordKind, SeenKind},
    failure::UsageError,
    private,
};
use anyhow::{Context, bail};
use crawlway_gateway::Probe;
use crawlway_lock::{DirectoryLock, LockError};
use crawlway_search_index::TantivyIndex;
use crawlway_store::{Frontier, PageIndex, SeenUrls, Trails, UrlRecords, rate_limiter::RateLimiter};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use crawlway_tls::ClientTls;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Database of the embedded records, below the data directory.
const RECORDS_FILE: &str = "records.db";
/// State of the embedded rate limiter, below the data directory.
const RATE_LIMITER_DIRECTORY: &str = "gate";
/// Search index, below the data directory.
const INDEX_DIRECTORY: &str = "index";

/// Makes sure that no other process works on embedded records. The embedded queue has a lock of its own, taken before.
pub(crate) fn lock_records(config: &Config) -> anyhow::Result<Option<DirectoryLock>> {
    if config.records.kind != RecordKind::Embedded || !config.broker.is_shared() {
        return Ok(None);
    }
    private::data_directory(&config.data_dir)?;
    match DirectoryLock::acquire(&config.data_dir) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::InUse { holder }) => {
            let holder = holder.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            bail!(
                "the records in `{}` are in use by another process{holder}; wait for its end, or name another data \
                 directory with --data",
                config.data_dir.display()
            )
        }
        Err(error) => Err(error.into()),
    }
}

/// The stores of records.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    pub(super) store: SqlStore,
    pub(crate) frontier: Arc<dyn Frontier>,
    pub(crate) trails: Arc<dyn Trails>,
}

impl Records {
    /// Takes back what was in flight when its process was killed. For who has the queues of this data directory, or its
    /// lock, which one process can have at a time, so that the worker that had something in flight is gone. Records on a server may be
    /// others' too, unless the settings say that there are none.
    pub(crate) async fn take_back(&self, config: &Config) -> anyhow::Result<()> {
        if config.records.kind == RecordKind::Embedded || config.only_process {
            self.frontier.reclaim_all().await?;
        }
        Ok(())
    }

    /// The seen URLs as far as they are kept here, for who never asks those that the settings name.
    pub(crate) fn seen_here(&self) -> Arc<dyn SeenUrls> {
        Arc::new(self.store.clone())
    }

    /// The records of the flow `inventory` as far as they are kept here, for who never asks those that the settings name.
    pub(crate) fn urls_here(&self) -> Arc<dyn UrlRecords> {
        Arc::new(self.store.clone())
    }

    /// Asks whether they can be used.
    pub(crate) fn probe(&self, config: &Config) -> Probe {
        let store = self.store.clone();
        let data = (config.records.kind == RecordKind::Embedded).then(|| config.data_dir.clone());
        Probe::new(move || {
            let (store, data) = (store.clone(), data.clone());
            async move {
                store.ping().await?;
                match data {
                    Some(data) => needs::can_be_written(data).await,
                    None => Ok(()),
                }
            }
        })
    }

    /// Lets go of files and connections.
    pub(crate) async fn close(&self) {
        self.store.close().await;
    }
}

/// The seen URLs, if they are on a server of their own. It is waited for within this time instead of the usual one.
pub(crate) async fn shared_seen(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Option<Arc<dyn SeenUrls>>> {
    Ok(match config.seen.kind {
        SeenKind::Records => None,
        SeenKind::Redis => Some(redis::seen_urls(config, within).await?),
    })
}

/// The records of the flow `inventory`, if they are on a server of their own. It is waited for within this time instead of
/// that of the settings.
pub(crate) async fn shared_urls(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    Ok(match config.inventory.store {
        InventoryKind::Records => None,
        InventoryKind::Mongodb => Some(mongodb::url_records(config, within).await?),
    })
}

/// The records of the flow `inventory` for who wants to look, if anything was recorded yet. That there is no data directory
/// is an error.
pub(crate) async fn existing_urls(config: &Config) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    if let Some(urls) = shared_urls(config, None).await? {
        return Ok(Some(urls));
    }
    if has_records(config) {
        return Ok(Some(records(config, None).await?.urls_here()));
    }
    must_be_a_directory(&config.data_dir)?;
    Ok(None)
}

/// Whether there are records to look at. A server is assumed to have some.
pub(super) fn has_records(config: &Config) -> bool {
    config.records.kind != RecordKind::Embedded || config.data_dir.join(RECORDS_FILE).exists()
}

/// Opens the stores of records for who wants to look: what does not exist yet is an error, and is not created.
pub(crate) async fn existing_records(config: &Config) -> anyhow::Result<Records> {
    if !has_records(config) {
        bail!(
            "data directory `{}` holds no records yet; `crawlway crawl URL` makes some, or name another with --data",
            config.data_dir.display()
        );
    }
    records(config, None).await
}

/// Opens the stores of records, new if there are none yet. A server is waited for within this time instead of that of the
/// settings.
pub(crate) async fn records(config: &Config, within: Option<Duration>) -> anyhow::Result<Records> {
    if config.records.kind == RecordKind::Embedded {
        not_while_served(config)?;
        private::data_directory(&config.data_dir)?;
    }
    let options = record_options(config, within).map_err(UsageError)?;
    let store = SqlStore::open(options).await.context("cannot open the records")?;
    let shared = Arc::new(store.clone());
    Ok(Records { store, frontier: shared.clone(), trails: shared })
}

pub(super) fn record_options(config: &Config, within: Option<Duration>) -> Result<SqlOptions, String> {
    let place = match config.records.kind {
        RecordKind::Embedded => Database::Sqlite(config.data_dir.join(RECORDS_FILE)),
        RecordKind::Postgresql => Database::Postgres(config.records.set_url()?.to_owned()),
    };
    let settings = &config.records.postgresql;
    Ok(SqlOptions {
        tls: match config.records.kind {
            RecordKind::Embedded => ClientTls::default(),
            RecordKind::Postgresql => settings.tls.client("records.postgresql.tls")?,
        },
        policy: config.search.policy(),
        connections: settings.max_connections.0.get(),
        open_timeout: within.unwrap_or(settings.connect_timeout.0),
        ..SqlOptions::new(place)
    })
}

/// Opens the search index for who wants to look: what does not exist yet is an error, and is not created.
pub(crate) async fn existing_page_index(config: &Config) -> anyhow::Result<Arc<dyn PageIndex>> {
    if config.search.index == IndexKind::Postgresql {
        return index_with_records(&records(config, None).await?);
    }
    if !config.data_dir.join(INDEX_DIRECTORY).exists() {
        bail!(
            "data directory `{}` holds no search index yet; `crawlway crawl URL` makes one, or name another with --data",
            config.data_dir.display()
        );
    }
    embedded_index(config).await
}

/// Opens the search index, new if there is none yet, unless it is in the database of the records.
pub(crate) async fn own_index(config: &Config) -> anyhow::Result<Option<Arc<dyn PageIndex>>> {
    Ok(match config.search.index {
        IndexKind::Embedded => Some(embedded_index(config).await?),
        IndexKind::Postgresql => None,
    })
}

/// The search index in the database of the records.
pub(crate) fn index_with_records(records: &Records) -> anyhow::Result<Arc<dyn PageIndex>> {
    postgresql::page_index(records)
}

async fn embedded_index(config: &Config) -> anyhow::Result<Arc<dyn PageIndex>> {
    not_while_served(config)?;
    private::data_directory(&config.data_dir)?;
    let directory = config.data_dir.join(INDEX_DIRECTORY);
    let options =
        crawlway_search_index::IndexOptions { memory: config.search.index_memory(), ..Default::default() };
    // An index of an older version is rebuilt here, which takes a while.
    let opened = tokio::task::spawn_blocking(move || TantivyIndex::open(directory, options)).await?;
    Ok(Arc::new(opened.context("cannot open the search index")?))
}

/// Rate limiter for a command that fetches by itself. The embedded one is in memory and ends with the process.
pub(crate) async fn rate_limiter(config: &Config) -> anyhow::Result<Arc<dyn RateLimiter>> {
    let rate_limiter = match config.rate_limit.kind {
        RateLimitKind::Embedded => None,
        RateLimitKind::Redis => own_rate_limiter(config, None).await?,
        RateLimitKind::Postgresql => rate_limiter_with_records(config, &records(config, None).await?).await?,
    };
    rate_limiter.map_or_else(|| idle_rate_limiter(config), Ok)
}

/// Rate limiter, unless it is in the database of the records. `within` replaces the usual connection timeout of a server.
/// The embedded one keeps the last request and the back-off of each host in the data directory.
pub(crate) async fn own_rate_limiter(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Option<Arc<dyn RateLimiter>>> {
    Ok(match config.rate_limit.kind {
        RateLimitKind::Embedded => {
            private::data_directory(&config.data_dir)?;
            Some(embedded_rate_limiter(config, Some(config.data_dir.join(RATE_LIMITER_DIRECTORY)))?)
        }
        RateLimitKind::Redis => Some(redis::rate_limiter(config, within).await?),
        RateLimitKind::Postgresql => None,
    })
}

/// Rate limiter in the database of the records, if the settings place it there.
pub(crate) async fn rate_limiter_with_records(
    config: &Config,
    records: &Records,
) -> anyhow::Result<Option<Arc<dyn RateLimiter>>> {
    if config.rate_limit.kind != RateLimitKind::Postgresql {
        return Ok(None);
    }
    postgresql::rate_limiter(config, records).await.map(Some)
}

/// Rate limiter in memory, for a process that fetches nothing and for single commands.
pub(crate) fn idle_rate_limiter(config: &Config) -> anyhow::Result<Arc<dyn RateLimiter>> {
    embedded_rate_limiter(config, None)
}

fn embedded_rate_limiter(
    config: &Config,
    directory: Option<PathBuf>,
) -> anyhow::Result<Arc<dyn RateLimiter>> {
    let options =
        RateLimiterOptions { policy: config.rate_limit.policy(), directory, ..RateLimiterOptions::default() };
    Ok(Arc::new(EmbeddedRateLimiter::open(options)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::given;

    #[test]
    fn embedded_records_beside_a_shared_broker_are_one_process_s_own() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let with = |kind| {
            let data = data.to_str().unwrap();
            let variables = [
                ("CRAWLWAY_DATA_DIR", data),
                ("CRAWLWAY_ONLY_PROCESS", "true"),
                ("CRAWLWAY_BROKER__KIND", kind),
            ];
            given(&variables).unwrap().config
        };
        let config = with("rabbitmq");
        let held = lock_records(&config).unwrap();
        assert!(held.is_some());
        let refused = lock_records(&config).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()) && refused.contains("--data"), "{refused}");
        drop(held);
        assert!(lock_records(&config).unwrap().is_some());
        assert!(lock_records(&with("embedded")).unwrap().is_none(), "the queue has the lock");
    }
}
