//! A cluster of three nodes, each of which is killed once in mid-work: `cargo xtask test --only kafka-cluster`.

mod support;

use crawlway_broker::{Broker, Outgoing, SettleOutcome, Verdict};
use crawlway_broker_kafka::Options;
use crawlway_testkit::private_kafka::PrivateKafka;
use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use support::{DEADLINE, TestLedger, eventually, number, options, queue, start};

/// Messages per killed node.
const MESSAGES: usize = 2000;
/// Pause between two batches of the publisher, so that the kill is in mid-work.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// Most messages of both workers and the publisher in flight, each of which may come twice after a kill.
const IN_FLIGHT: usize = 2 * PREFETCH + 20;
const PREFETCH: usize = 50;

/// What has become of the messages.
#[derive(Debug, Default)]
struct Outcome {
    /// Times of the deliveries that were settled, by message.
    settled: BTreeMap<usize, usize>,
    /// Messages that may come twice: their confirm is unknown, or they were settled while a node was down.
    uncertain: BTreeSet<usize>,
    /// Messages that came twice although they may not.
    redone: Vec<usize>,
    is_node_down: bool,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Outcome {
    fn settle(&mut self, number: usize, is_done: bool) {
        let count = self.settled.entry(number).or_default();
        *count += 1;
        if *count > 1 && !self.uncertain.contains(&number) {
            self.redone.push(number);
        }
        if !is_done || self.is_node_down {
            self.uncertain.insert(number);
        }
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.longest_gap = self.longest_gap.max(now - last);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_of_three_loses_nothing_and_work_goes_on() {
    let mut nodes = PrivateKafka::start_cluster();
    let servers = nodes.each_ref().map(PrivateKafka::address).join(",");
    let (ledger, spec) =
        (TestLedger::open().await, queue("cluster").prefetch(u32::try_from(PREFETCH).unwrap()));
    let replicated = Options {
        partitions: 6,
        replication: 3,
        publish_timeout: Duration::from_secs(10),
        ..options(&servers)
    };
    let mut processes = Vec::new();
    for _ in 0..3 {
        let process = start(replicated.clone(), &ledger).await;
        process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
        processes.push(process);
    }
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let workers: Vec<_> = processes[1..]
        .iter()
        .map(|process| {
            let (broker, queue, outcome) = (process.broker.clone(), spec.name.clone(), outcome.clone());
            tokio::spawn(async move {
                loop {
                    let received = broker.receive(&queue, 20, Duration::from_millis(500)).await;
                    for delivery in received.unwrap_or_default() {
                        let number = number(&delivery);
                        let answer = broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0);
                        outcome.lock().unwrap().settle(number, answer == Ok(SettleOutcome::Done));
                    }
                }
            })
        })
        .collect();

    for (index, node) in nodes.iter_mut().enumerate() {
        eventually("all replicas are in sync", async || is_in_sync(&servers)).await;
        outcome.lock().unwrap().longest_gap = Duration::ZERO;
        let (broker, queue, shared) = (processes[0].broker.clone(), spec.name.clone(), outcome.clone());
        let publisher = tokio::spawn(async move {
            for first in (index * MESSAGES..(index + 1) * MESSAGES).step_by(20) {
                publish(&*broker, &queue, first..first + 20, &shared).await;
                tokio::time::sleep(BATCH_DELAY).await;
            }
        });
        let settled = |count: usize| {
            let outcome = outcome.clone();
            async move || outcome.lock().unwrap().settled.len() >= index * MESSAGES + count
        };
        eventually("work begins", settled(MESSAGES / 4)).await;
        let killed = Instant::now();
        outcome.lock().unwrap().is_node_down = true;
        node.kill();
        // All of it, while the node is down.
        eventually("work goes on without the node", settled(MESSAGES)).await;
        publisher.await.unwrap();
        eprintln!(
            "node {}: {} of {MESSAGES} messages in {:.1} s without it, longest gap {:.1} s",
            index + 1,
            MESSAGES - MESSAGES / 4,
            killed.elapsed().as_secs_f64(),
            outcome.lock().unwrap().longest_gap.as_secs_f64()
        );
        node.restart();
        outcome.lock().unwrap().is_node_down = false;
    }
    eventually("all replicas are in sync", async || is_in_sync(&servers)).await;
    // What would come twice has come.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for worker in workers {
        worker.abort();
    }
    let outcome = outcome.lock().unwrap();
    let twice = outcome.settled.values().filter(|count| **count > 1).count();
    eprintln!("{} messages, {twice} of them twice", outcome.settled.len());
    assert_eq!(outcome.settled.len(), 3 * MESSAGES, "nothing is lost");
    assert!(outcome.redone.is_empty(), "settled before a kill and delivered again: {:?}", outcome.redone);
    assert!(twice <= 3 * IN_FLIGHT, "{twice} messages came twice");
}

/// Publishes until all are confirmed.
async fn publish(
    broker: &dyn Broker,
    queue: &crawlway_broker::QueueName,
    numbers: std::ops::Range<usize>,
    outcome: &Mutex<Outcome>,
) {
    let start = Instant::now();
    let mut left: Vec<usize> = numbers.collect();
    while !left.is_empty() {
        assert!(start.elapsed() < DEADLINE, "{left:?} are not confirmed");
        let batch = left.iter().map(|number| Outgoing::to_queue(queue, number.to_string()));
        let answers = broker.publish(batch.collect()).await;
        left = left
            .into_iter()
            .zip(answers)
            .filter_map(|(number, answer)| answer.err().map(|_| number))
            .collect();
        outcome.lock().expect("not poisoned").uncertain.extend(&left);
    }
}

/// Whether every partition has three replicas in sync.
fn is_in_sync(servers: &str) -> bool {
    let client: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", servers).create().expect("a client");
    client.fetch_metadata(None, Duration::from_secs(5)).is_ok_and(|metadata| {
        let mut partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        metadata.brokers().len() == 3 && partitions.all(|partition| partition.isr().len() == 3)
    })
}
