//! Shared fixtures: broker handles that stand for processes, and a ledger that they share.
#![allow(dead_code, reason = "each test crate uses its own part")]

use crawlway_broker::{
    Broker, Delivery, LengthLimited, MessageId, Outgoing, QueueAdmin, QueueName, QueueSpec, SettleOutcome,
    Verdict,
};
use crawlway_broker_kafka::{KafkaBroker, Options};
use crawlway_store::{Ledger, LedgerPolicy};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::{Handle, Runtime};

/// Timeout of everything that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

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
    runtime: Option<Runtime>,
}

impl Process {
    pub(crate) async fn start(options: Options, ledger: Arc<dyn Ledger>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connecting = runtime.spawn(crawlway_broker_kafka::connect(options, ledger));
        let broker = connecting.await.expect("the connecting task").expect("the server answers");
        Self { broker: Arc::new(broker), runtime: Some(runtime) }
    }

    /// Ends all its tasks at once.
    pub(crate) fn kill(self) {
        drop(self);
    }

    pub(crate) fn handle(&self) -> Handle {
        self.runtime.as_ref().expect("it runs").handle().clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Deletes the topics of a broker's queues: the server is shared, and thousands of them would use up its memory.
pub(crate) async fn delete_topics(broker: &dyn QueueAdmin, servers: &str) {
    let Ok(specs) = broker.queues().await else { return };
    let topics: Vec<String> = specs
        .iter()
        .flat_map(|spec| ["", ".wait", ".dead"].map(|suffix| format!("{}{suffix}", spec.name)))
        .collect();
    let admin = admin(servers);
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let _ = admin.delete_topics(&names, &AdminOptions::new()).await;
}

/// Administrative client of another program.
pub(crate) fn admin(servers: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", servers).create().expect("a client")
}

/// First offset and end of a partition.
pub(crate) fn watermarks(servers: &str, topic: &str, partition: i32) -> (i64, i64) {
    let client: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", servers).create().expect("a client");
    client.fetch_watermarks(topic, partition, Duration::from_secs(10)).expect("offsets")
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < DEADLINE, "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Spec of a queue that no other test uses.
pub(crate) fn queue(prefix: &str) -> QueueSpec {
    let name = format!("{prefix}-{}", &MessageId::random().as_str()[24..]);
    QueueSpec::new(QueueName::new(&name).expect("an allowed name"))
}

/// Receives until this many messages came.
pub(crate) async fn receive(broker: &dyn Broker, queue: &QueueName, count: usize) -> Vec<Delivery> {
    let (mut received, start) = (Vec::new(), Instant::now());
    while received.len() < count {
        assert!(start.elapsed() < DEADLINE, "{} of {count} messages came", received.len());
        let more = broker.receive(queue, count - received.len(), Duration::from_millis(500)).await;
        received.extend(more.unwrap_or_default());
    }
    received
}

/// Publishes messages whose bodies are their numbers, each until it is confirmed.
pub(crate) async fn publish_numbers(broker: &dyn Broker, queue: &QueueName, count: usize) {
    let start = Instant::now();
    let mut left: Vec<usize> = (0..count).collect();
    while !left.is_empty() {
        assert!(start.elapsed() < DEADLINE, "{} messages are not confirmed", left.len());
        let batch = left.iter().map(|number| Outgoing::to_queue(queue, number.to_string())).collect();
        let results = broker.publish(batch).await;
        left = left
            .into_iter()
            .zip(results)
            .filter(|(_, result)| result.is_err())
            .map(|(number, _)| number)
            .collect();
    }
}

/// Number of a message.
pub(crate) fn number(delivery: &Delivery) -> usize {
    String::from_utf8_lossy(&delivery.message.body).parse().expect("a number")
}

pub(crate) fn numbers(deliveries: &[Delivery]) -> BTreeSet<usize> {
    deliveries.iter().map(number).collect()
}

pub(crate) async fn done(broker: &dyn Broker, deliveries: &[Delivery]) {
    let verdicts = deliveries.iter().map(|delivery| (delivery.receipt.clone(), Verdict::Done)).collect();
    for answer in broker.settle(verdicts).await {
        assert_eq!(answer, Ok(SettleOutcome::Done));
    }
}
