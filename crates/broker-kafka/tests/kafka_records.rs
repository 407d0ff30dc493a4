//! Records and topics of other programs: defects are reported, and topics that could lose messages are refused.

mod support;

use crawlway_broker::{Broker, BrokerError, Defect, QueueAdmin as _, SettleOutcome, Verdict};
use crawlway_broker_kafka::Options;
use crawlway_testkit::servers;
use rdkafka::{
    ClientConfig,
    admin::{AdminOptions, NewTopic, TopicReplication},
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord},
};
use std::time::Duration;
use support::{TestLedger, admin, delete_topics, done, options, publish_numbers, queue, receive, start};

#[tokio::test(flavor = "multi_thread")]
async fn foreign_records_are_read_with_their_defects_and_copied_whole() {
    let (ledger, spec) = (TestLedger::open().await, queue("foreign"));
    let process = start(options(&servers::kafka()), &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap();
    let headers = OwnedHeaders::new()
        .insert(Header { key: "twice", value: Some("1") })
        .insert(Header { key: "twice", value: Some("2") })
        .insert(Header { key: "null", value: None::<&str> })
        .insert(Header { key: "binary", value: Some(&[0xff_u8][..]) });
    let record = FutureRecord::<[u8], [u8]>::to(spec.name.as_str()).key(&[0xfe_u8][..]).headers(headers);
    producer.send(record, Duration::from_secs(10)).await.unwrap();

    let mut id = None;
    for attempt in 1..=2 {
        let delivery = receive(broker, &spec.name, 1).await.remove(0);
        let message = &delivery.message;
        assert_eq!(delivery.attempt, attempt);
        assert_eq!(
            message.defects,
            [
                Defect::DuplicateHeader("twice".into()),
                Defect::NullHeader("null".into()),
                Defect::BinaryHeader("binary".into()),
                Defect::BinaryKey,
                Defect::NullBody,
            ],
            "a copy keeps what the original has"
        );
        assert_eq!(message.headers["twice"], "2");
        assert_eq!(id.get_or_insert_with(|| message.id.clone()), &message.id, "the place is the id, once");
        if attempt == 1 {
            let retry = Verdict::Retry { after: Duration::ZERO, error: "failed".into() };
            let answers = broker.settle(vec![(delivery.receipt, retry)]).await;
            assert_eq!(answers, [Ok(SettleOutcome::Retrying { attempt: 2 })]);
        } else {
            done(broker, &[delivery]).await;
        }
    }
    delete_topics(broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consumer_groups_get_every_message_and_only_their_own_copies() {
    let (ledger, spec) = (TestLedger::open().await, queue("groups").prefetch(10));
    let mut processes = Vec::new();
    for group_prefix in ["crawlway", "other"] {
        let options = Options { group_prefix: group_prefix.to_owned(), ..options(&servers::kafka()) };
        let process = start(options, &ledger).await;
        process.broker.declare(std::slice::from_ref(&spec)).await.unwrap();
        processes.push(process);
    }
    publish_numbers(&*processes[0].broker, &spec.name, 1).await;
    // Each copy would come to both groups, and each would make another one.
    for attempt in 1..=3 {
        for process in &processes {
            let delivery = receive(&*process.broker, &spec.name, 1).await.remove(0);
            assert_eq!((delivery.attempt, delivery.losses), (attempt, 0));
            let verdict = match attempt {
                1 => Verdict::Retry { after: Duration::ZERO, error: "failed".into() },
                2 => Verdict::Retry { after: Duration::from_millis(300), error: "failed".into() },
                _ => Verdict::Done,
            };
            process.broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0).unwrap();
        }
    }
    for process in &processes {
        let more = process.broker.receive(&spec.name, 10, Duration::from_secs(1)).await.unwrap();
        assert!(more.is_empty(), "{more:?}");
        let depth = process.broker.depth(&spec.name).await.unwrap();
        assert_eq!((depth.ready, depth.in_flight, depth.delayed), (0, 0, 0));
    }
    let wait = format!("other.{}.wait", spec.name);
    let _ = admin(&servers::kafka()).delete_topics(&[&wait], &AdminOptions::new()).await;
    delete_topics(&*processes[0].broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn null_and_empty_keys_and_bodies_differ_in_copies_too() {
    let (ledger, spec) = (TestLedger::open().await, queue("keys").prefetch(10));
    let process = start(options(&servers::kafka()), &ledger).await;
    let broker = &*process.broker;
    broker.declare(std::slice::from_ref(&spec)).await.unwrap();
    let producer: FutureProducer =
        ClientConfig::new().set("bootstrap.servers", servers::kafka()).create().unwrap();
    for (key, body) in [(None, None), (None, Some("")), (Some(""), None), (Some(""), Some(""))] {
        let mut record = FutureRecord::<str, str>::to(spec.name.as_str());
        (record.key, record.payload) = (key, body);
        producer.send(record, Duration::from_secs(10)).await.unwrap();
        for attempt in 1..=2 {
            let delivery = receive(broker, &spec.name, 1).await.remove(0);
            let message = &delivery.message;
            assert_eq!((delivery.attempt, message.key.as_deref(), message.body.len()), (attempt, key, 0));
            assert_eq!(message.defects.contains(&Defect::NullBody), body.is_none(), "{:?}", message.defects);
            if attempt == 1 {
                let retry = Verdict::Retry { after: Duration::ZERO, error: "failed".into() };
                broker.settle(vec![(delivery.receipt, retry)]).await.remove(0).unwrap();
            } else {
                done(broker, &[delivery]).await;
            }
        }
    }
    delete_topics(broker, &servers::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_could_lose_messages_are_refused() {
    let ledger = TestLedger::open().await;
    let process = start(options(&servers::kafka()), &ledger).await;
    let admin = admin(&servers::kafka());
    for (setting, value, expected) in [
        ("cleanup.policy", "compact", "it is compacted"),
        ("retention.ms", "60000", "retention.ms is 60000"),
        ("retention.bytes", "1000000", "retention.bytes is 1000000"),
        ("max.message.bytes", "1000", "max.message.bytes is 1000"),
        ("unclean.leader.election.enable", "true", "unclean.leader.election.enable is true"),
    ] {
        let spec = queue("refused");
        let topic = NewTopic::new(spec.name.as_str(), 1, TopicReplication::Fixed(1));
        let topic = topic.set("retention.ms", "-1").set(setting, value);
        admin.create_topics(&[topic], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
        match process.broker.declare(std::slice::from_ref(&spec)).await {
            Err(BrokerError::Mismatch { queue, difference }) => {
                assert!(queue == spec.name && difference.contains(expected), "{difference}");
            }
            other => panic!("{setting}={value} must be refused, the answer was {other:?}"),
        }
        let names = [spec.name.to_string(), format!("{}.wait", spec.name)];
        let _ = admin.delete_topics(&[&names[0], &names[1]], &AdminOptions::new()).await;
    }
    // The partitions: too few for the delay tiers, and too few replicas.
    let replicated = start(Options { replication: 3, ..options(&servers::kafka()) }, &ledger).await;
    for (broker, topic, expected) in [
        (&process.broker, ".wait", "it has 1 partitions; expected 5"),
        (&replicated.broker, "", "it has 1 replicas; expected 3"),
    ] {
        let spec = queue("refused");
        let names = ["", ".wait"].map(|suffix| format!("{}{suffix}", spec.name));
        for name in names.iter().filter(|name| topic.is_empty() || name.ends_with(topic)) {
            let new = NewTopic::new(name, 1, TopicReplication::Fixed(1)).set("retention.ms", "-1");
            admin.create_topics(&[new], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
        }
        match broker.declare(std::slice::from_ref(&spec)).await {
            Err(BrokerError::Mismatch { difference, .. }) => {
                assert!(difference.contains(expected), "{difference}");
            }
            other => panic!("{expected}: the answer was {other:?}"),
        }
        let _ = admin.delete_topics(&[&names[0], &names[1]], &AdminOptions::new()).await;
    }
}
