//! Shared fixtures: broker handles that stand for processes, and a ledger that they share.
#![allow(dead_code, reason = "each test crate uses its own part")]

use crawlway_broker::{
    Broker, Delivery, LengthLimited, MessageId, Outgoing, QueueAdmin, QueueName, QueueSpec, SettleOutcome,
    Verdict,
};
use crawlway_broker_kafka::{KafkaBroker, Options};
pub(crate) use crawlway_testkit::ledger::TestLedger;
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

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

pub(crate) type Process = crawlway_broker_conformance::Process<LengthLimited<KafkaBroker>>;

pub(crate) async fn start(options: Options, ledger: &TestLedger) -> Process {
    Process::start(crawlway_broker_kafka::connect(options, ledger.ledger.clone())).await
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
