//! Faults of workers and of the server.

mod support;

use crawlway_broker::Broker;
use crawlway_broker_kafka::Options;
use crawlway_testkit::{private_kafka::PrivateKafka, servers};
use std::{collections::BTreeSet, time::Duration};
use support::{TestLedger, delete_topics, done, numbers, options, publish_numbers, queue, receive, start};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_above_the_watermark_is_not_redelivered_after_a_crash() {
    let (ledger, spec) = (TestLedger::open().await, queue("watermark").prefetch(100));
    let one = Options { partitions: 1, ..options(&servers::kafka()) };
    let process = start(one.clone(), &ledger).await;
    process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(&*process.broker, &spec.name, 60).await;
    let received = receive(&*process.broker, &spec.name, 60).await;
    let is_held = |number: &usize| number.is_multiple_of(10);
    let (held, settled): (Vec<_>, Vec<_>) = received
        .into_iter()
        .partition(|delivery| numbers(std::slice::from_ref(delivery)).iter().all(is_held));
    done(&*process.broker, &settled).await;
    process.kill();

    let process = start(one, &ledger).await;
    process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let again = receive(&*process.broker, &spec.name, held.len()).await;
    assert_eq!(numbers(&again), numbers(&held), "only what was held");
    assert!(again.iter().all(|delivery| delivery.losses == 1), "their worker was lost");
    done(&*process.broker, &again).await;
    let more = process.broker.receive(&spec.name, 10, Duration::from_secs(1)).await.unwrap();
    assert!(more.is_empty(), "{more:?}");
    delete_topics(&*process.broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_no_confirmed_message() {
    let (ledger, spec) = (TestLedger::open().await, queue("killed").prefetch(500));
    let mut kafka = PrivateKafka::start("");
    let short = Options { publish_timeout: Duration::from_secs(5), ..options(&kafka.address()) };
    let process = start(short, &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(broker, &spec.name, 100).await;
    let early = receive(broker, &spec.name, 10).await;
    done(broker, &early).await;
    kafka.kill();
    kafka.restart();
    let mut seen = numbers(&early);
    while seen.len() < 100 {
        let received = receive(broker, &spec.name, 1).await;
        seen.extend(numbers(&received));
        let verdicts =
            received.into_iter().map(|delivery| (delivery.receipt, crawlway_broker::Verdict::Done));
        // A member that the server has forgotten is fenced, and gets its messages again.
        broker.settle(verdicts.collect()).await;
    }
    assert_eq!(seen, (0..100).collect::<BTreeSet<_>>());
    // Publishing goes on, too.
    publish_numbers(broker, &spec.name, 10).await;
    let after = receive(broker, &spec.name, 10).await;
    assert!(numbers(&after).len() <= 10);
}
