//! Shared fixtures: broker handles that stand for processes, and a ledger that they share.
#![allow(dead_code, reason = "each test crate uses its own part")]

use crawlway_broker::{LengthLimited, QueueAdmin};
use crawlway_broker_kafka::{KafkaBroker, Options};
use crawlway_store::{Ledger, LedgerPolicy};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
};
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) fn options(servers: &str) -> Options {
    Options {
        servers: servers.to_owned(),
        partitions: 2,
        session_timeout: Duration::from_secs(3),
        ..Options::default()
    }
}

/// Ledger of one test, shared by its processes.
pub(crate) struct TestLedger {
    pub(crate) ledger: Arc<dyn Ledger>,
    _folder: TempDir,
}

impl TestLedger {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = Database::Sqlite(folder.path().join("ledger.db"));
        let store = SqlStore::open(SqlOptions::new(database)).await.expect("the store opens");
        let policy = LedgerPolicy { session_lease: Duration::from_secs(2), ..LedgerPolicy::default() };
        Self { ledger: Arc::new(store.ledger(policy).expect("the policy is valid")), _folder: folder }
    }
}

/// Broker handle with a runtime of its own, which stands for a process: shutting it down is a kill.
pub(crate) struct Process {
    pub(crate) broker: Arc<LengthLimited<KafkaBroker>>,
    pub(crate) runtime: Runtime,
}

impl Process {
    pub(crate) async fn start(options: Options, ledger: Arc<dyn Ledger>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connecting = runtime.spawn(crawlway_broker_kafka::connect(options, ledger));
        let broker = connecting.await.expect("the connecting task").expect("the server answers");
        Self { broker: Arc::new(broker), runtime }
    }

    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }
}

/// Deletes the topics of a broker's queues: the server is shared, and thousands of them would use up its memory.
pub(crate) async fn delete_topics(broker: &dyn QueueAdmin, servers: &str) {
    let Ok(specs) = broker.queues().await else { return };
    let topics: Vec<String> = specs
        .iter()
        .flat_map(|spec| ["", ".wait", ".dead"].map(|suffix| format!("{}{suffix}", spec.name)))
        .collect();
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", servers).create().expect("a client");
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let _ = admin.delete_topics(&names, &AdminOptions::new()).await;
}
