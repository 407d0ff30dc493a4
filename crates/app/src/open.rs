//! Opens what the settings ask for. The only file that names backends.

use crate::{
    config::{
        ByteSize, Config, GateKind, IndexKind, InventoryKind, MongoSettings, RecordKind, SeenKind, Span,
        secret::Secret,
    },
    failure::UsageError,
    output::warn,
    presence,
    worker::worker_name,
};
use anyhow::{Context, bail};
use crawlway_broker::{Broker, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options, Recovery};
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_flows::{
    inventory::url_inventory,
    search::{WithFrontier, crawler_queue},
};
use crawlway_lock::{DirectoryLock, LockError};
use crawlway_search_index::TantivyIndex;
use crawlway_store::{Frontier, PageIndex, SeenUrls, Trails, UrlRecords, gate::Gate};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use crawlway_store_redis::{RedisOptions, RedisStore};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Logs under this name what `warn_of_damage` says already.
pub(crate) const TELLS_DAMAGE_ITSELF: &str = "crawlway_broker_embedded::recover";

/// Where the embedded queue is, below the data directory.
const QUEUE_DIRECTORY: &str = "queue";
/// Where the embedded records are, below the data directory.
const RECORDS_FILE: &str = "records.db";
/// Where the embedded gate keeps what must outlive the process, below the data directory.
const GATE_DIRECTORY: &str = "gate";
/// Where the search index is, below the data directory.
const INDEX_DIRECTORY: &str = "index";
/// What the embedded queue can be set to; it would quietly stay within these.
const EMBEDDED_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// What a RabbitMQ server takes at most, whatever it is set to.
const RABBITMQ_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(128 << 20));

/// How long a call of a process that stays up waits for a lost connection: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// `[broker]`: what carries the queues.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerSettings {
    kind: BrokerKind,
    embedded: EmbeddedSettings,
    rabbitmq: RabbitSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BrokerKind {
    Embedded,
    Rabbitmq,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddedSettings {
    max_message: ByteSize,
    max_segment: ByteSize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RabbitSettings {
    host: String,
    port: u16,
    vhost: String,
    user: String,
    password: Secret,
    management: String,
    max_message: ByteSize,
    confirm_timeout: Span,
}

impl BrokerSettings {
    /// Whether many processes can use it.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind != BrokerKind::Embedded
    }

    /// Whether everything is said of the server that is asked for, or what is missing.
    pub(crate) fn is_set(&self) -> Result<(), String> {
        match self.kind {
            BrokerKind::Embedded => Ok(()),
            BrokerKind::Rabbitmq => self.rabbitmq.is_set(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (least, most) = EMBEDDED_SIZES;
        let EmbeddedSettings { max_message, max_segment } = self.embedded;
        if [max_message, max_segment].iter().any(|size| *size < least || *size > most) {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        let RabbitSettings { max_message, confirm_timeout, management, .. } = &self.rabbitmq;
        let (least, most) = RABBITMQ_SIZES;
        if *max_message < least || *max_message > most {
            return Err("expected 64KiB to 128MiB".to_owned());
        }
        if confirm_timeout.0.is_zero() {
            return Err("expected a duration of at least \"1ms\"".to_owned());
        }
        if !management.is_empty() && !management.starts_with("http://") {
            return Err("expected \"\", or an address such as \"http://rabbitmq:15672\"".to_owned());
        }
        Ok(())
    }
}

impl RabbitSettings {
    fn is_set(&self) -> Result<(), String> {
        if self.host.is_empty() {
            return Err(
                "`broker.kind` is \"rabbitmq\", but `broker.rabbitmq.host` is empty; set it".to_owned()
            );
        }
        if self.user.is_empty() || self.password.expose().is_empty() {
            return Err(
                "`broker.kind` is \"rabbitmq\", but nothing says who we are there; set RABBITMQ_USER and \
                RABBITMQ_PASSWORD, or `broker.rabbitmq.user` and `broker.rabbitmq.password`"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Opens the broker for who wants to look: what does not exist yet is an error, and is not created.
async fn existing_broker(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Embedded => must_exist(&config.data_dir, &config.data_dir.join(QUEUE_DIRECTORY))?,
        BrokerKind::Rabbitmq => {}
    }
    broker(config).await
}

/// The queues, with the frontier shown among them where there is one, for who wants to look.
#[derive(Debug)]
pub(crate) struct Queues {
    pub(crate) broker: Arc<dyn Broker>,
    /// Where the items' trails are, if anything was recorded yet.
    pub(crate) records: Option<Records>,
}

impl Queues {
    /// Lets go of files and connections.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let closed = self.broker.close().await;
        if let Some(records) = self.records {
            records.close().await;
        }
        Ok(closed?)
    }
}

/// Opens the queues for who wants to look: what does not exist yet is an error, and is not created.
pub(crate) async fn existing_queues(config: &Config) -> anyhow::Result<Queues> {
    let broker = existing_broker(config).await?;
    if config.broker.is_shared() {
        // Only what was declared here is known here.
        broker.declare(&[pages_queue(config), url_queue(config, &*broker)]).await?;
    }
    if !has_records(config) {
        return Ok(Queues { broker, records: None });
    }
    let records = records(config).await?;
    if !config.broker.is_shared() {
        records.take_back(config).await?;
    }
    let broker = Arc::new(WithFrontier::new(broker, records.frontier.clone()));
    Ok(Queues { broker, records: Some(records) })
}

/// Refuses to touch what a gateway that runs owns, and says where that is.
pub(crate) fn not_while_served(config: &Config) -> anyhow::Result<()> {
    match presence::running(&config.data_dir) {
        None => Ok(()),
        Some(presence::Running { address, pid }) => bail!(
            "data directory `{}` is in use by the gateway at http://{address} (process {pid}); ask that gateway, or stop \
             it first",
            config.data_dir.display()
        ),
    }
}

/// Opens the broker, new if there is none yet.
pub(crate) async fn broker(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => Ok(Arc::new(rabbitmq(&config.broker.rabbitmq).await?)),
        BrokerKind::Embedded => {
            not_while_served(config)?;
            let directory = config.data_dir.join(QUEUE_DIRECTORY);
            let broker = EmbeddedBroker::open(&directory, config.broker.embedded.options())?;
            let Recovery { messages, lost_deliveries, torn_bytes, .. } = broker.recovery();
            tracing::info!(messages, lost_deliveries, torn_bytes, directory = %directory.display(), "queue opened");
            warn_of_damage(&directory, broker.recovery());
            Ok(Arc::new(broker))
        }
    }
}

/// Opens the broker without waiting for a server, which is connected to as soon as it is there.
pub(crate) async fn broker_later(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => {
            let options = rabbitmq_options(&config.broker.rabbitmq)?;
            let options = crawlway_broker_rabbitmq::Options { patience: PATIENCE, ..options };
            Ok(Arc::new(RabbitBroker::connect_later(options)))
        }
        BrokerKind::Embedded => broker(config).await,
    }
}

/// What is declared of the queue of URLs on this broker.
pub(crate) fn url_queue(config: &Config, broker: &dyn Broker) -> QueueSpec {
    config.inventory.queue(config.queue.spec(url_inventory()), &broker.guarantees())
}

async fn rabbitmq(settings: &RabbitSettings) -> anyhow::Result<RabbitBroker> {
    let RabbitSettings { host, port, .. } = settings;
    let options = rabbitmq_options(settings)?;
    RabbitBroker::connect(options).await.with_context(|| format!("cannot use RabbitMQ at {host}:{port}"))
}

fn rabbitmq_options(settings: &RabbitSettings) -> anyhow::Result<crawlway_broker_rabbitmq::Options> {
    let RabbitSettings { host, port, vhost, user, password, management, max_message, confirm_timeout } =
        settings;
    settings.is_set().map_err(UsageError)?;
    Ok(crawlway_broker_rabbitmq::Options {
        host: host.clone(),
        port: *port,
        user: user.clone(),
        password: password.expose().to_owned(),
        vhost: vhost.clone(),
        management: (!management.is_empty()).then(|| management.clone()),
        // So it is with every message of every flow.
        content_type: Some("application/json".to_owned()),
        name: format!("crawlway {}", worker_name()),
        max_message: max_message.0,
        confirm_timeout: confirm_timeout.0,
        ..Default::default()
    })
}

/// Opens Redis, which `setting` asks for.
async fn redis(config: &Config, setting: &str) -> anyhow::Result<RedisStore> {
    let url = config.redis.set_url(setting).map_err(UsageError)?;
    let options = RedisOptions { prefix: config.redis.prefix.clone(), ..RedisOptions::new(url) };
    RedisStore::connect(options).await.context("cannot use Redis")
}

/// The queue in which pages wait to be indexed.
pub(crate) fn pages_queue(config: &Config) -> QueueSpec {
    let spec = config.queue.spec(crawler_queue());
    let prefetch = spec.prefetch.max(config.search.least_prefetch());
    spec.prefetch(prefetch)
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
fn has_records(config: &Config) -> bool {
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

impl EmbeddedSettings {
    fn options(self) -> Options {
        Options { max_message: self.max_message.0, max_segment: self.max_segment.0, ..Options::default() }
    }
}

fn must_be_a_directory(data: &Path) -> anyhow::Result<()> {
    match fs::metadata(data) {
        Ok(found) if !found.is_dir() => {
            bail!("`{}` is not a directory; name the data directory with --data", data.display())
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no data directory `{}`; name another with --data or `data_dir`", data.display())
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot look at data directory `{}`", data.display()))
        }
    }
}

fn must_exist(data: &Path, queue: &Path) -> anyhow::Result<()> {
    must_be_a_directory(data)?;
    let nothing_yet = match fs::read_dir(queue) {
        Ok(mut files) => files.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot look at queue directory `{}`", queue.display()));
        }
    };
    if nothing_yet {
        bail!("data directory `{}` holds no queues yet (looked in `{}`)", data.display(), queue.display());
    }
    Ok(())
}

fn warn_of_damage(directory: &Path, found: &Recovery) {
    for damage in &found.damage {
        warn(&format!(
            "queue directory `{}`: {damage}; the messages in it are lost, all others are whole",
            directory.display()
        ));
    }
    for unfinished in &found.unfinished {
        warn(&format!(
            "queue directory `{}`: {unfinished}, at the end of the log, where a crash in the middle of a write \
             leaves such bytes: most likely nobody was told that they are safe",
            directory.display()
        ));
    }
    if found.damaged_journal_slots > 0 {
        warn(&format!(
            "queue directory `{}`: {} journal entries are unreadable; messages they settled may come again",
            directory.display(),
            found.damaged_journal_slots
        ));
    }
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
