//! Opens the stores that the settings ask for: records, seen URLs, the search index, the gate.

use super::{must_be_a_directory, not_while_served};
use crate::{
    config::{Config, GateKind, IndexKind, InventoryKind, MongoSettings, RecordKind, SeenKind},
    failure::UsageError,
};
use anyhow::{Context, bail};
use crawlway_lock::{DirectoryLock, LockError};
use crawlway_search_index::TantivyIndex;
use crawlway_store::{Frontier, PageIndex, SeenUrls, Trails, UrlRecords, gate::Gate};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use crawlway_store_redis::{RedisOptions, RedisStore};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use std::{fs, path::PathBuf, sync::Arc};

/// Where the embedded records are, below the data directory.
const RECORDS_FILE: &str = "records.db";
/// Where the embedded gate keeps what must outlive the process, below the data directory.
const GATE_DIRECTORY: &str = "gate";
/// Where the search index is, below the data directory.
const INDEX_DIRECTORY: &str = "index";
/// Opens Redis, which `setting` asks for.
async fn redis(config: &Config, setting: &str) -> anyhow::Result<RedisStore> {
    let url = config.redis.set_url(setting).map_err(UsageError)?;
    let options = RedisOptions { prefix: config.redis.prefix.clone(), ..RedisOptions::new(url) };
    RedisStore::connect(options).await.context("cannot use Redis")
}

/// Makes sure that no other process works on embedded records. The embedded queue has a lock of its own, taken before.
pub(crate) fn lock_records(config: &Config) -> anyhow::Result<Option<DirectoryLock>> {
    if config.records.kind != RecordKind::Embedded || !config.broker.is_shared() {
        return Ok(None);
    }
    fs::create_dir_all(&config.data_dir)
        .with_context(|| format!("cannot make data directory `{}`", config.data_dir.display()))?;
    match DirectoryLock::take(&config.data_dir) {
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
    store: SqlStore,
    pub(crate) frontier: Arc<dyn Frontier>,
    pub(crate) trails: Arc<dyn Trails>,
}

impl Records {
    /// Takes back what was in flight when its process was killed. For who has the queues of this data directory, or its
    /// lock, which one process can have at a time, so that whoever had something in flight is gone.
    pub(crate) async fn take_back(&self, config: &Config) -> anyhow::Result<()> {
        if config.records.kind == RecordKind::Embedded {
            self.frontier.take_back().await?;
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

    /// Lets go of files and connections.
    pub(crate) async fn close(&self) {
        self.store.close().await;
    }
}

/// Opens the seen URLs. To be called by who asks them, since they may be on a server of their own.
pub(crate) async fn seen(config: &Config, records: &Records) -> anyhow::Result<Arc<dyn SeenUrls>> {
    Ok(match config.seen.kind {
        SeenKind::Records => records.seen_here(),
        SeenKind::Redis => Arc::new(redis(config, "seen.kind").await?),
    })
}

/// Opens the records of the flow `inventory`. To be called by who asks them, since they may be on a server of their own.
pub(crate) async fn urls(config: &Config, records: &Records) -> anyhow::Result<Arc<dyn UrlRecords>> {
    Ok(match shared_urls(config).await? {
        Some(urls) => urls,
        None => records.urls_here(),
    })
}

/// The records of the flow `inventory`, if they are on a server of their own.
pub(crate) async fn shared_urls(config: &Config) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    Ok(match config.inventory.store {
        InventoryKind::Records => None,
        InventoryKind::Mongodb => Some(Arc::new(mongodb(config).await?)),
    })
}

/// The records of the flow `inventory` for who wants to look, if anything was recorded yet. That there is no data directory
/// is an error.
pub(crate) async fn existing_urls(config: &Config) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    if let Some(urls) = shared_urls(config).await? {
        return Ok(Some(urls));
    }
    if has_records(config) {
        return Ok(Some(records(config).await?.urls_here()));
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
    records(config).await
}

/// Opens the stores of records, new if there are none yet.
pub(crate) async fn records(config: &Config) -> anyhow::Result<Records> {
    let place = match config.records.kind {
        RecordKind::Embedded => {
            not_while_served(config)?;
            fs::create_dir_all(&config.data_dir)
                .with_context(|| format!("cannot make data directory `{}`", config.data_dir.display()))?;
            Place::Sqlite(config.data_dir.join(RECORDS_FILE))
        }
        RecordKind::Postgresql => Place::Postgres(config.records.set_url().map_err(UsageError)?.to_owned()),
    };
    let settings = &config.records.postgresql;
    let store = SqlStore::open(SqlOptions {
        policy: config.search.policy(),
        connections: settings.connections.0.get(),
        open_within: settings.open_within.0,
        ..SqlOptions::new(place)
    })
    .await
    .context("cannot open the records")?;
    let shared = Arc::new(store.clone());
    Ok(Records { store, frontier: shared.clone(), trails: shared })
}

/// Opens MongoDB, which `inventory.store` asks for.
async fn mongodb(config: &Config) -> anyhow::Result<MongoStore> {
    let MongoSettings { database, collection, open_within, .. } = &config.inventory.mongodb;
    let url = config.inventory.set_url().map_err(UsageError)?;
    let options = MongoOptions {
        database: database.clone(),
        collection: collection.clone(),
        open_within: open_within.0,
        ..MongoOptions::new(url)
    };
    MongoStore::open(options).await.context("cannot use MongoDB")
}

/// Opens the search index for who wants to look: what does not exist yet is an error, and is not created.
pub(crate) async fn existing_page_index(config: &Config) -> anyhow::Result<Arc<dyn PageIndex>> {
    if config.search.index == IndexKind::Postgresql {
        return page_index(config, &records(config).await?).await;
    }
    if !config.data_dir.join(INDEX_DIRECTORY).exists() {
        bail!(
            "data directory `{}` holds no search index yet; `crawlway crawl URL` makes one, or name another with --data",
            config.data_dir.display()
        );
    }
    embedded_index(config).await
}

/// Opens the search index, new if there is none yet.
pub(crate) async fn page_index(config: &Config, records: &Records) -> anyhow::Result<Arc<dyn PageIndex>> {
    match config.search.index {
        IndexKind::Embedded => embedded_index(config).await,
        IndexKind::Postgresql => Ok(Arc::new(records.store.pages()?)),
    }
}

async fn embedded_index(config: &Config) -> anyhow::Result<Arc<dyn PageIndex>> {
    not_while_served(config)?;
    let directory = config.data_dir.join(INDEX_DIRECTORY);
    let options =
        crawlway_search_index::Options { memory: config.search.index_memory(), ..Default::default() };
    // An index of an older version is rebuilt here, which takes a while.
    let opened = tokio::task::spawn_blocking(move || TantivyIndex::open(directory, options)).await?;
    Ok(Arc::new(opened.context("cannot open the search index")?))
}

/// The gate of a crawl: it remembers, in the data directory or on a server, when hosts were last asked and which of them
/// blocked us.
pub(crate) async fn lasting_gate(config: &Config, records: &Records) -> anyhow::Result<Arc<dyn Gate>> {
    let directory = Some(config.data_dir.join(GATE_DIRECTORY));
    match shared_gate(config, Some(records)).await? {
        Some(gate) => Ok(gate),
        None => embedded_gate(config, directory),
    }
}

/// The gate that every request passes. The embedded one lives in this process and is as old as that.
pub(crate) async fn gate(config: &Config) -> anyhow::Result<Arc<dyn Gate>> {
    match shared_gate(config, None).await? {
        Some(gate) => Ok(gate),
        None => embedded_gate(config, None),
    }
}

/// A gate for who fetches nothing.
pub(crate) fn idle_gate(config: &Config) -> anyhow::Result<Arc<dyn Gate>> {
    embedded_gate(config, None)
}

fn embedded_gate(config: &Config, directory: Option<PathBuf>) -> anyhow::Result<Arc<dyn Gate>> {
    let options = GateOptions { policy: config.gate.policy(), directory, ..GateOptions::default() };
    Ok(Arc::new(EmbeddedGate::open(options)?))
}

/// The gate of all processes, if the settings want one.
async fn shared_gate(config: &Config, opened: Option<&Records>) -> anyhow::Result<Option<Arc<dyn Gate>>> {
    let policy = config.gate.policy();
    Ok(match config.gate.kind {
        GateKind::Embedded => None,
        GateKind::Redis => Some(Arc::new(redis(config, "gate.kind").await?.gate(policy).await?)),
        GateKind::Postgresql => {
            let records = match opened {
                Some(records) => records.clone(),
                None => records(config).await?,
            };
            Some(Arc::new(records.store.gate(policy).await?))
        }
    })
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
