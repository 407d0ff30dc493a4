//! What these tests share: options for a server, names of their own, and a raw client as a stranger would use it.
#![allow(dead_code, reason = "each test crate uses its own part")]

use crawlway_broker::{Broker, MessageId, Outgoing, PublishError, QueueName, QueueSpec, Settled, Verdict};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::servers::RabbitMq;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// How long something that must happen may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn options(server: &RabbitMq) -> Options {
    Options {
        host: server.host.clone(),
        port: server.port,
        user: server.user.clone(),
        password: server.password.clone(),
        management: Some(server.management.clone()),
        ..Options::default()
    }
}

pub(crate) async fn connect(server: &RabbitMq) -> Arc<RabbitBroker> {
    Arc::new(RabbitBroker::connect(options(server)).await.expect("the server answers"))
}

/// A queue that no other test has.
pub(crate) fn queue(stem: &str) -> QueueSpec {
    let name = format!("{stem}-{}", &MessageId::random().as_str()[24..]);
    QueueSpec::new(QueueName::new(&name).expect("an allowed name"))
}

/// A connection as another program would have it.
pub(crate) async fn stranger(server: &RabbitMq) -> (lapin::Connection, lapin::Channel) {
    let address = format!("amqp://{}:{}@{}:{}/%2f", server.user, server.password, server.host, server.port);
    let connection = lapin::Connection::connect(&address, lapin::ConnectionProperties::default());
    let connection = connection.await.expect("the server answers");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

/// Waits until it holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < DEADLINE, "waited in vain for this: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Publishes all of these ids, however often it takes, in batches; an id whose fate is unknown is published again.
pub(crate) async fn publish_all(broker: Arc<RabbitBroker>, queue: QueueName, ids: Vec<String>) {
    for some in ids.chunks(100) {
        let mut left: Vec<&String> = some.iter().collect();
        let started = Instant::now();
        while !left.is_empty() {
            assert!(started.elapsed() < DEADLINE, "publishers must get on, {} are left", left.len());
            let batch = left.iter().map(|id| Outgoing::to_queue(&queue, (*id).clone()).id(id.as_str()));
            let outcomes = broker.publish(batch.collect()).await;
            left = left
                .into_iter()
                .zip(outcomes)
                .filter_map(|(id, outcome)| match outcome {
                    Ok(()) => None,
                    Err(PublishError::Unknown { .. } | PublishError::Unavailable { .. }) => Some(id),
                    Err(error) => panic!("publishing {id}: {error}"),
                })
                .collect();
        }
    }
}

/// Takes and finishes what comes, and notes what was finished. Goes on until it is aborted.
pub(crate) async fn finish_all(
    broker: Arc<RabbitBroker>,
    queue: QueueName,
    seen: Arc<Mutex<BTreeSet<String>>>,
) {
    loop {
        let Ok(got) = broker.receive(&queue, 50, Duration::from_secs(1)).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let ids: Vec<String> = got.iter().map(|delivery| delivery.message.id.to_string()).collect();
        let verdicts = got.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
        for (id, answer) in ids.into_iter().zip(broker.settle(verdicts).await) {
            if answer == Ok(Settled::Done) {
                seen.lock().expect("no task panicked").insert(id);
            }
        }
    }
}
