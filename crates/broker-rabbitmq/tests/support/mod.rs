//! Shared fixtures: broker handles, processes that can be killed, foreign clients, policies and traffic.
#![allow(dead_code, reason = "each test crate uses its own part")]

pub(crate) mod frame_proxy;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use crawlway_broker::{
    Broker, Delivery, MessageId, Outgoing, PublishError, QueueName, QueueSpec, SettleOutcome, Timestamp,
    Verdict,
};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::{proxy::Proxy, servers::RabbitMq};
use lapin::{
    BasicProperties, Channel,
    options::{
        BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Timeout of everything that must happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn options(server: &RabbitMq) -> Options {
    Options {
        host: server.host.clone(),
        port: server.port,
        user: server.user.clone(),
        password: server.password.clone(),
        management_url: Some(server.management.clone()),
        ..Options::default()
    }
}

/// A TCP proxy before the server, and options that go through it.
pub(crate) async fn proxied(server: &RabbitMq) -> (Proxy, Options) {
    let proxy = Proxy::in_front_of(format!("{}:{}", server.host, server.port)).await;
    let port = proxy.address().port();
    (proxy, Options { port, ..options(server) })
}

/// Spec of a queue that no other test uses.
pub(crate) fn queue(prefix: &str) -> QueueSpec {
    let name = format!("{prefix}-{}", &MessageId::random().as_str()[24..]);
    QueueSpec::new(QueueName::new(&name).expect("an allowed name"))
}

/// Broker handle with one declared queue.
pub(crate) async fn open(options: Options, spec: &QueueSpec) -> Arc<RabbitBroker> {
    let broker = RabbitBroker::connect(options).await.expect("the server answers");
    broker.declare(std::slice::from_ref(spec)).await.expect("the queue is declared");
    Arc::new(broker)
}

pub(crate) type Process = crawlway_broker_conformance::Process<RabbitBroker>;

pub(crate) async fn process_with_queue(options: Options, spec: &QueueSpec) -> Process {
    let process = Process::start(RabbitBroker::connect(options)).await;
    process.broker.declare(std::slice::from_ref(spec)).await.expect("the queue is declared");
    process
}

pub(crate) async fn publish(broker: &RabbitBroker, queue: &QueueName, body: &str) {
    assert_eq!(broker.publish(vec![Outgoing::to_queue(queue, body.to_owned())]).await, [Ok(())]);
}

/// Publishes messages whose bodies are their numbers.
pub(crate) async fn publish_numbers(broker: &RabbitBroker, queue: &QueueName, count: usize) {
    let batch = (0..count).map(|i| Outgoing::to_queue(queue, i.to_string())).collect();
    assert!(broker.publish(batch).await.iter().all(Result::is_ok));
}

/// Receives until a message comes.
pub(crate) async fn receive_one(broker: &RabbitBroker, queue: &QueueName) -> Delivery {
    let mut received = Vec::new();
    eventually("a message is delivered", async || {
        received.extend(broker.receive(queue, 1, Duration::from_millis(500)).await.unwrap_or_default());
        !received.is_empty()
    })
    .await;
    received.remove(0)
}

pub(crate) async fn settle(broker: &RabbitBroker, delivery: Delivery, verdict: Verdict) -> SettleOutcome {
    broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0).expect("it is settled")
}

/// Connection and channel of another program.
pub(crate) async fn foreign_client(server: &RabbitMq) -> (lapin::Connection, Channel) {
    let address = format!("amqp://{}:{}@{}:{}/%2f", server.user, server.password, server.host, server.port);
    let connection = lapin::Connection::connect(&address, lapin::ConnectionProperties::default());
    let connection = connection.await.expect("the server answers");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

pub(crate) async fn foreign_publish(
    channel: &Channel,
    exchange: &str,
    routing_key: &str,
    body: &[u8],
    properties: BasicProperties,
) -> lapin::Confirmation {
    let options = BasicPublishOptions::default();
    let publish = channel.basic_publish(exchange.into(), routing_key.into(), options, body, properties);
    publish.await.expect("a publish").await.expect("its confirm")
}

pub(crate) async fn foreign_declare(channel: &Channel, queue: &str, arguments: FieldTable) {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), durable, arguments).await.expect("a declare");
}

pub(crate) async fn foreign_delete(channel: &Channel, queue: &str) {
    channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.expect("a delete");
}

/// First message of a queue, which stays unacknowledged.
pub(crate) async fn foreign_get(channel: &Channel, queue: &str) -> lapin::message::Delivery {
    let message = channel.basic_get(queue.into(), BasicGetOptions::default()).await.expect("a get");
    message.unwrap_or_else(|| panic!("a message in `{queue}`")).delivery
}

/// Number of ready messages and of consumers of a queue.
pub(crate) async fn counts(channel: &Channel, queue: &str) -> (u32, u32) {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
    let declared = declared.expect("the queue exists");
    (declared.message_count(), declared.consumer_count())
}

/// Publishes a message to `:due` that is delayed further, as when it expires from a delay queue.
pub(crate) async fn publish_due(server: &RabbitMq, queue: &QueueName, delay: Duration) {
    let (_connection, channel) = foreign_client(server).await;
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let mut headers = FieldTable::default();
    let time = i64::try_from((Timestamp::now() + delay).as_millis()).expect("a time");
    headers.insert("x-crawlway-not-before".into(), AMQPValue::LongLongInt(time));
    let properties = BasicProperties::default().with_headers(headers);
    foreign_publish(&channel, "", &format!("{queue}:due"), b"a", properties).await;
}

/// Policy that makes queues reject every publish.
pub(crate) struct RejectPolicy {
    server: RabbitMq,
    path: String,
}

impl RejectPolicy {
    /// Sets the policy for all queues that match, and waits until `queue` rejects.
    pub(crate) async fn set(server: &RabbitMq, pattern: &str, queue: &str) -> Self {
        let path = format!("/api/policies/%2F/{}", MessageId::random());
        let definition = r#"{"max-length":0,"overflow":"reject-publish"}"#;
        let body = format!(r#"{{"pattern":"{pattern}","definition":{definition},"apply-to":"queues"}}"#);
        let answer = management(server, "PUT", &path, &body).await;
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        let (_connection, channel) = foreign_client(server).await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        eventually("the policy is in force", async || {
            let properties = BasicProperties::default().with_expiration("0".into());
            foreign_publish(&channel, "", queue, b"", properties).await.is_nack()
        })
        .await;
        Self { server: server.clone(), path }
    }

    pub(crate) async fn remove(self) {
        let answer = management(&self.server, "DELETE", &self.path, "").await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
}

/// Response of the management API, headers included.
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

/// Lets a foreign client take the first message and disconnect, so that the message is redelivered.
pub(crate) async fn lose_worker(server: &RabbitMq, queue: &str) {
    let (connection, channel) = foreign_client(server).await;
    foreign_get(&channel, queue).await;
    connection.close(200, "gone".into()).await.expect("a close");
    let (_connection, channel) = foreign_client(server).await;
    eventually("the message is requeued", async || counts(&channel, queue).await.0 > 0).await;
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < DEADLINE, "timed out waiting for: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Publishes all ids in batches, with any number of attempts.
pub(crate) async fn publish_all(broker: Arc<RabbitBroker>, queue: QueueName, ids: Vec<String>) {
    for batch in ids.chunks(100) {
        let mut left: Vec<&String> = batch.iter().collect();
        let started = Instant::now();
        while !left.is_empty() {
            assert!(started.elapsed() < DEADLINE, "{} messages could not be published", left.len());
            let batch = left.iter().map(|id| Outgoing::to_queue(&queue, (*id).clone()).id(id.as_str()));
            let results = broker.publish(batch.collect()).await;
            left = left
                .into_iter()
                .zip(results)
                .filter_map(|(id, result)| match result {
                    Ok(()) => None,
                    Err(PublishError::Unconfirmed { .. } | PublishError::Unavailable { .. }) => Some(id),
                    Err(error) => panic!("publishing {id}: {error}"),
                })
                .collect();
        }
    }
}

/// Receives and finishes messages until it is aborted, and records the ids of the finished ones.
pub(crate) async fn finish_all(
    broker: Arc<RabbitBroker>,
    queue: QueueName,
    finished: Arc<Mutex<BTreeSet<String>>>,
) {
    loop {
        let Ok(received) = broker.receive(&queue, 50, Duration::from_secs(1)).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let ids: Vec<String> = received.iter().map(|delivery| delivery.message.id.to_string()).collect();
        let verdicts = received.into_iter().map(|delivery| (delivery.receipt, Verdict::Done)).collect();
        for (id, result) in ids.into_iter().zip(broker.settle(verdicts).await) {
            if result == Ok(SettleOutcome::Done) {
                finished.lock().expect("no task panicked").insert(id);
            }
        }
    }
}
