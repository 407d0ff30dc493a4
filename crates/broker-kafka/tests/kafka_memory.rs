//! Memory of a slow consumer: partitions are paused, so that a backlog stays on the server.

mod support;

use crawlway_broker::{Broker, Outgoing};
use crawlway_testkit::servers;
use std::time::Duration;
use support::{TestLedger, delete_topics, done, options, queue, receive, start};

const BACKLOG: usize = 300 << 20;
const BODY: usize = 100 << 10;
/// Two partitions with 8 MiB in the client and 4 MiB in the queue each, and the memory of their handling.
const MAX_GROWTH: usize = 80 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_stays_on_the_server() {
    let (ledger, spec) = (TestLedger::open().await, queue("memory").prefetch(10));
    let publisher = start(options(&servers::kafka()), &ledger).await;
    publisher.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    for _ in 0..BACKLOG / BODY / 64 {
        let batch = (0..64).map(|_| Outgoing::to_queue(&spec.name, vec![b'x'; BODY]));
        for answer in publisher.broker.publish(batch.collect()).await {
            answer.unwrap();
        }
    }
    let before = resident();
    let consumer = start(options(&servers::kafka()), &ledger).await;
    consumer.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let mut grown = 0;
    for _ in 0..10 {
        let received = receive(&*consumer.broker, &spec.name, 10).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        grown = grown.max(resident().saturating_sub(before));
        done(&*consumer.broker, &received).await;
    }
    assert!(grown < MAX_GROWTH, "{} MiB", grown >> 20);
    delete_topics(&*publisher.broker, &servers::kafka()).await;
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}
