//! Topics that change under a running worker, and a group whose offsets the server forgot.

mod support;

use crawlway_broker::Broker;
use crawlway_broker_kafka::Options;
use crawlway_testkit::{private_kafka::PrivateKafka, servers};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminOptions, NewPartitions, NewTopic, TopicReplication},
    consumer::{BaseConsumer, Consumer as _},
    producer::{FutureProducer, FutureRecord},
};
use std::{collections::BTreeSet, time::Duration};
use support::{
    TestLedger, admin, delete_topics, done, eventually, numbers, options, publish_numbers, queue, receive,
    start,
};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_are_added_are_read() {
    let (ledger, spec) = (TestLedger::open().await, queue("added").prefetch(100));
    let process = start(options(&servers::kafka()), &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(broker, &spec.name, 10).await;
    done(broker, &receive(broker, &spec.name, 10).await).await;
    let added = NewPartitions::new(spec.name.as_str(), 4);
    let admin = admin(&servers::kafka());
    admin.create_partitions(&[added], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap();
    for partition in 0..4 {
        let body = partition.to_string();
        let record = || FutureRecord::<str, str>::to(spec.name.as_str()).partition(partition).payload(&body);
        // The server may not have told its clients of new partitions yet.
        eventually("the partition is known", async || {
            producer.send(record(), Duration::from_secs(10)).await.is_ok()
        })
        .await;
    }
    let received = receive(broker, &spec.name, 4).await;
    assert_eq!(numbers(&received), (0..4).collect::<BTreeSet<_>>());
    done(broker, &received).await;
    let depth = crawlway_broker::QueueAdmin::depth(broker, &spec.name).await.unwrap();
    assert_eq!((depth.ready, depth.in_flight), (0, 0));
    delete_topics(broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_anew_is_read_from_its_beginning() {
    let (ledger, spec) = (TestLedger::open().await, queue("anew").prefetch(100));
    let process = start(options(&servers::kafka()), &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(broker, &spec.name, 50).await;
    done(broker, &receive(broker, &spec.name, 50).await).await;
    let admin = admin(&servers::kafka());
    let name = spec.name.as_str();
    admin.delete_topics(&[name], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    eventually("the topic can be made anew", async || {
        let topic = NewTopic::new(name, 2, TopicReplication::Fixed(1)).set("retention.ms", "-1");
        admin.create_topics(&[topic], &AdminOptions::new()).await.unwrap().remove(0).is_ok()
    })
    .await;
    publish_numbers(broker, &spec.name, 10).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 10 {
        let received = receive(broker, &spec.name, 1).await;
        seen.extend(numbers(&received));
        let verdicts =
            received.into_iter().map(|delivery| (delivery.receipt, crawlway_broker::Verdict::Done));
        // A rebalance may fence it.
        broker.settle(verdicts.collect()).await;
    }
    assert_eq!(seen, (0..10).collect::<BTreeSet<_>>());
    delete_topics(broker, &servers::kafka()).await;
}

/// The server's minimum of the retention is a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_offsets_expired_reads_everything_again() {
    let (ledger, spec) = (TestLedger::open().await, queue("idle").prefetch(100));
    let kafka =
        PrivateKafka::start("offsets.retention.minutes=1\noffsets.retention.check.interval.ms=1000\n");
    let one = Options { partitions: 1, ..options(&kafka.address()) };
    let process = start(one.clone(), &ledger).await;
    process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    publish_numbers(&*process.broker, &spec.name, 10).await;
    done(&*process.broker, &receive(&*process.broker, &spec.name, 4).await).await;
    process.broker.close().await.unwrap();
    process.kill();

    let group = format!("{}.{}", one.group_prefix, spec.name);
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.address())
        .set("group.id", &group)
        .create()
        .unwrap();
    let committed = || {
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition(spec.name.as_str(), 0);
        let offsets = client.committed_offsets(partitions, Duration::from_secs(10)).unwrap();
        offsets.elements()[0].offset()
    };
    assert_eq!(committed(), Offset::Offset(4));
    eventually("the offsets expire", async || committed() == Offset::Invalid).await;

    let process = start(one, &ledger).await;
    process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let received = receive(&*process.broker, &spec.name, 10).await;
    assert_eq!(numbers(&received), (0..10).collect::<BTreeSet<_>>(), "from the beginning");
    done(&*process.broker, &received).await;
}
