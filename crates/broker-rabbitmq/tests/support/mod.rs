//! What these tests share: options for a server, names of their own, and a raw client as a stranger would use it.
#![allow(dead_code, reason = "each test crate uses its own part")]

pub(crate) mod meddler;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use crawlway_broker::{
    Broker, MessageId, Outgoing, PublishError, QueueName, QueueSpec, Settled, Timestamp, Verdict,
};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::servers::RabbitMq;
use lapin::{
    BasicProperties,
    options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

/// Puts a message among what is due that has to wait for so long yet, as when it comes out of a tier.
pub(crate) async fn due_in(server: &RabbitMq, queue: &QueueName, wait: Duration) {
    let (_connection, channel) = stranger(server).await;
    let mut headers = FieldTable::default();
    let time = i64::try_from((Timestamp::now() + wait).as_millis()).expect("a time");
    headers.insert("x-crawlway-not-before".into(), AMQPValue::LongLongInt(time));
    let properties = BasicProperties::default().with_headers(headers);
    let due = format!("{queue}:due");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let publish =
        channel.basic_publish("".into(), due.into(), BasicPublishOptions::default(), b"a", properties);
    publish.await.expect("a publish").await.expect("its confirm");
}

/// A policy by which some queues take nothing.
pub(crate) struct Policy {
    server: RabbitMq,
    path: String,
}

impl Policy {
    pub(crate) async fn lift(self) {
        let lifted = management(&self.server, "DELETE", &self.path, "").await;
        assert!(lifted.starts_with("HTTP/1.1 204"), "{lifted}");
    }
}

/// Has the queues whose names match take nothing any more. One of them is waited for.
pub(crate) async fn full(server: &RabbitMq, pattern: &str, one: &str) -> Policy {
    let path = format!("/api/policies/%2F/{}", MessageId::random());
    let definition = r#"{"max-length":0,"overflow":"reject-publish"}"#;
    let body = format!(r#"{{"pattern":"{pattern}","definition":{definition},"apply-to":"queues"}}"#);
    let made = management(server, "PUT", &path, &body).await;
    assert!(made.starts_with("HTTP/1.1 20"), "{made}");
    let (_connection, channel) = stranger(server).await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let refused = || async {
        let properties = BasicProperties::default().with_expiration("0".into());
        let publish =
            channel.basic_publish("".into(), one.into(), BasicPublishOptions::default(), b"", properties);
        publish.await.expect("a publish").await.expect("its confirm").is_nack()
    };
    until("the policy is in force", refused).await;
    Policy { server: server.clone(), path }
}

/// Asks the management API, and returns its answer with the head.
pub(crate) async fn management(server: &RabbitMq, method: &str, path: &str, body: &str) -> String {
    let address = server.management.strip_prefix("http://").expect("an http:// address");
    let token = BASE64_STANDARD.encode(format!("{}:{}", server.user, server.password));
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Basic {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the management API answers");
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

/// Has somebody take the first message of a queue and go away without a word, so that it is marked as delivered before.
pub(crate) async fn passed_by_a_lost_worker(server: &RabbitMq, queue: &str) {
    let (connection, channel) = stranger(server).await;
    let taken = channel.basic_get(queue.into(), BasicGetOptions::default()).await.expect("a get");
    taken.unwrap_or_else(|| panic!("a message in `{queue}`"));
    connection.close(200, "gone".into()).await.expect("a goodbye");
    let (_connection, channel) = stranger(server).await;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    until("it is back", || async {
        let queue = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        queue.expect("the queue").message_count() > 0
    })
    .await;
}

/// Waits until it holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
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
