//! Opens the configured stores: records, seen URLs, the search index, the rate limiter.

use super::{dependencies, mongodb, must_be_a_directory, not_while_served, postgresql, redis};
use crate::{
    config::{Config, IndexKind, InventoryKind, RateLimitKind, RecordKind, RequestKind},
    failure::UsageError,
    flows::FlowModule,
    permissions,
};
use anyhow::{Context, bail};
use crawlway_gateway::Probe;
use crawlway_lock::{DirectoryLock, LockError};
use crawlway_search_index::TantivyIndex;
use crawlway_store::{
    Frontier, PageIndex, RequestStore, SeenUrls, Tokens, Trails, UrlRecords, rate_limiter::RateLimiter,
};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use crawlway_tls::ClientTls;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Database of the embedded records, below the data directory.
const RECORDS_FILE: &str = "records.db";
/// Database of the embedded ledger of brokers, below the data directory.
#[cfg(any(feature = "kafka", feature = "sqs"))]
const LEDGER_FILE: &str = "ledger.db";
/// State of the embedded rate limiter, below the data directory.
const RATE_LIMITER_DIRECTORY: &str = "gate";
/// Search index, below the data directory.
const INDEX_DIRECTORY: &str = "index";

/// Makes sure that no other process works on embedded records. The embedded queue has a lock of its own, taken before.
pub(crate) fn lock_records(
    config: &Config,
    flows: &[&'static dyn FlowModule],
) -> anyhow::Result<Option<DirectoryLock>> {
    if config.records.kind != RecordKind::Embedded || config.owns_queues(flows) {
        return Ok(None);
    }
    permissions::data_directory(&config.data_dir)?;
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
    pub(crate) tokens: Arc<dyn Tokens>,
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

    /// Seen URLs in this database.
    pub(crate) fn seen(&self) -> Arc<dyn SeenUrls> {
        Arc::new(self.store.clone())
    }

    /// Records of the flow `inventory` in this database.
    pub(crate) fn urls(&self) -> Arc<dyn UrlRecords> {
        Arc::new(self.store.clone())
    }

    /// Requests of users in this database.
    pub(crate) fn requests(&self, config: &Config) -> Arc<dyn RequestStore> {
        Arc::new(self.store.requests(config.requests.policy()))
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
                    Some(data) => dependencies::can_be_written(data).await,
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

/// Opens seen URLs outside the database of the records. `within` replaces the connection timeout of the settings.
pub(crate) async fn own_seen(config: &Config, within: Option<Duration>) -> anyhow::Result<Arc<dyn SeenUrls>> {
    redis::seen_urls(config, within).await
}

/// Opens records of the flow `inventory` outside the database of the records. `within` replaces the connection timeout of the
/// settings.
pub(crate) async fn own_urls(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn UrlRecords>> {
    mongodb::url_records(config, within).await
}

/// Opens requests of users outside the database of the records. `within` replaces the connection timeout of the settings.
pub(crate) async fn own_requests(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn RequestStore>> {
    redis::requests(config, within).await
}

/// Opens access tokens outside the database of the records. `within` replaces the connection timeout of the settings.
pub(crate) async fn own_tokens(config: &Config, within: Option<Duration>) -> anyhow::Result<Arc<dyn Tokens>> {
    redis::tokens(config, within).await
}

/// Opens requests of users, wherever they are, and creates their store if needed.
pub(crate) async fn requests(config: &Config) -> anyhow::Result<Arc<dyn RequestStore>> {
    match config.requests.store {
        RequestKind::Redis => own_requests(config, None).await,
        RequestKind::Records => Ok(records(config, None).await?.requests(config)),
    }
}

/// Opens existing requests of users; `None` if nothing was recorded yet. A missing data directory is an error.
pub(crate) async fn existing_requests(config: &Config) -> anyhow::Result<Option<Arc<dyn RequestStore>>> {
    if config.requests.store == RequestKind::Records && !has_records(config) {
        must_be_a_directory(&config.data_dir)?;
        return Ok(None);
    }
    requests(config).await.map(Some)
}

/// Opens existing records of the flow `inventory`; `None` if nothing was recorded yet. A missing data directory is an error.
pub(crate) async fn existing_urls(config: &Config) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    if config.inventory.store == InventoryKind::Mongodb {
        return own_urls(config, None).await.map(Some);
    }
    if has_records(config) {
        return Ok(Some(records(config, None).await?.urls()));
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

/// Opens the stores of records; `None` if there are none yet, unless they are to be created. A missing data directory is an error.
pub(crate) async fn records_if_any(config: &Config, create: bool) -> anyhow::Result<Option<Records>> {
    if !create && !has_records(config) {
        must_be_a_directory(&config.data_dir)?;
        return Ok(None);
    }
    records(config, None).await.map(Some)
}

/// Opens the stores of records, new if there are none yet. A server is waited for within this time instead of that of the
/// settings.
pub(crate) async fn records(config: &Config, within: Option<Duration>) -> anyhow::Result<Records> {
    if config.records.kind == RecordKind::Embedded {
        not_while_served(config)?;
        permissions::data_directory(&config.data_dir)?;
    }
    let options = record_options(config, within).map_err(UsageError)?;
    let store = SqlStore::open(options).await.context("cannot open the records")?;
    let shared = Arc::new(store.clone());
    Ok(Records { store, frontier: shared.clone(), trails: shared.clone(), tokens: shared })
}

/// Opens the ledger of brokers in the database of the records, or in a file of its own if they are embedded.
#[cfg(any(feature = "kafka", feature = "sqs"))]
pub(super) async fn ledger(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn crawlway_store::Ledger>> {
    let options = match config.records.kind {
        RecordKind::Embedded => {
            permissions::data_directory(&config.data_dir)?;
            SqlOptions::new(Database::Sqlite(config.data_dir.join(LEDGER_FILE)))
        }
        RecordKind::Postgresql => record_options(config, within).map_err(UsageError)?,
    };
    let store = SqlStore::open(options).await.context("cannot open the ledger")?;
    Ok(Arc::new(store.ledger(crawlway_store::LedgerPolicy::default())?))
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

/// Opens the embedded search index, and creates it if needed.
pub(crate) async fn own_index(config: &Config) -> anyhow::Result<Arc<dyn PageIndex>> {
    embedded_index(config).await
}

/// The search index in the database of the records.
pub(crate) fn index_with_records(records: &Records) -> anyhow::Result<Arc<dyn PageIndex>> {
    postgresql::page_index(records)
}

async fn embedded_index(config: &Config) -> anyhow::Result<Arc<dyn PageIndex>> {
    not_while_served(config)?;
    permissions::data_directory(&config.data_dir)?;
    let directory = config.data_dir.join(INDEX_DIRECTORY);
    let options =
        crawlway_search_index::IndexOptions { memory: config.search.index_memory(), ..Default::default() };
    // An index of an older version is rebuilt here, which takes a while.
    let opened = tokio::task::spawn_blocking(move || TantivyIndex::open(directory, options)).await?;
    Ok(Arc::new(opened.context("cannot open the search index")?))
}

/// Rate limiter for a command that fetches by itself. The embedded one is in memory and ends with the process.
pub(crate) async fn rate_limiter(config: &Config) -> anyhow::Result<Arc<dyn RateLimiter>> {
    match config.rate_limit.kind {
        RateLimitKind::Embedded => embedded_rate_limiter(config, None),
        RateLimitKind::Redis => own_rate_limiter(config, None).await,
        RateLimitKind::Postgresql => rate_limiter_with_records(config, &records(config, None).await?).await,
    }
}

/// Opens a rate limiter outside the database of the records. `within` replaces the connection timeout of the settings. The
/// embedded one keeps the last request and the back-off of each host in the data directory.
pub(crate) async fn own_rate_limiter(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn RateLimiter>> {
    if config.rate_limit.kind == RateLimitKind::Redis {
        return redis::rate_limiter(config, within).await;
    }
    permissions::data_directory(&config.data_dir)?;
    embedded_rate_limiter(config, Some(config.data_dir.join(RATE_LIMITER_DIRECTORY)))
}

/// Opens the rate limiter in the database of the records.
pub(crate) async fn rate_limiter_with_records(
    config: &Config,
    records: &Records,
) -> anyhow::Result<Arc<dyn RateLimiter>> {
    postgresql::rate_limiter(config, records).await
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
    use crate::{config::tests::given, flows::FLOWS};

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
        let held = lock_records(&config, FLOWS).unwrap();
        assert!(held.is_some());
        let refused = lock_records(&config, FLOWS).unwrap_err().to_string();
        assert!(refused.contains(&std::process::id().to_string()) && refused.contains("--data"), "{refused}");
        drop(held);
        assert!(lock_records(&config, FLOWS).unwrap().is_some());
        assert!(lock_records(&with("embedded"), FLOWS).unwrap().is_none(), "the queue has the lock");
    }
}
