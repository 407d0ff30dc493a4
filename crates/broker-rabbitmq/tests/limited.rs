//! Queues with a limit: their consumer, what they hand out when, and what happens when another client declares them anew.

mod support;

use crawlway_broker::{
    Broker, BrokerError, MaxLength, Outgoing, PublishError, QueueSpec, Timestamp, Verdict,
};
use crawlway_testkit::servers;
use lapin::{
    Channel,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use std::time::Duration;
use support::{DEADLINE, connect, queue, stranger, until};

fn limited(stem: &str, limit: u64) -> QueueSpec {
    queue(stem).prefetch(1).max_length(MaxLength::Exact(limit))
}

/// How many messages are ready in a queue, and how many consumers it has.
async fn look(channel: &Channel, queue: &str) -> (u32, u32) {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await.expect("a look");
    (declared.message_count(), declared.consumer_count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_a_limit_has_a_consumer_that_is_sent_one_message_at_a_time() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = limited("consumed", 10);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    let name = spec.name.as_str();
    let (worker, queue) = (broker.clone(), spec.name.clone());
    // It takes the next one when it is through with the one before, as a stage does.
    let (finish, mut finished) = tokio::sync::mpsc::channel::<()>(1);
    let working = tokio::spawn(async move {
        loop {
            let Ok(got) = worker.receive(&queue, 1, Duration::from_millis(250)).await else { continue };
            for delivery in got {
                if finished.recv().await.is_none() {
                    return;
                }
                let settling = worker.settle(vec![(delivery.receipt, Verdict::Done)]);
                let next = worker.receive(&queue, 1, Duration::from_millis(1));
                tokio::join!(settling, next).0.remove(0).expect("its end");
            }
        }
    });
    until("an empty queue has a consumer", async || look(&channel, name).await == (0, 1)).await;
    for body in ["a", "b", "c", "d"] {
        assert_eq!(broker.publish(vec![Outgoing::to_queue(&spec.name, body)]).await, [Ok(())]);
    }
    until("one is at work, and the others wait", async || look(&channel, name).await == (3, 1)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(look(&channel, name).await, (3, 1), "nothing is sent ahead, and the consumer stays");
    finish.send(()).await.expect("a worker");
    until("the next one is at work", async || look(&channel, name).await == (2, 1)).await;
    working.abort();
    broker.close().await.expect("the broker closes");
    until("what was not finished is back", async || look(&channel, name).await.1 == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_back_and_what_is_new_take_turns() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = limited("turns", 100);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    let soon = Timestamp::now() + Duration::from_millis(100);
    let later = |n| Outgoing::to_queue(&spec.name, format!("back {n}")).not_before(soon);
    assert!(broker.publish((0..20).map(later).collect()).await.iter().all(Result::is_ok));
    let due = format!("{}:due", spec.name);
    until("all are due", async || look(&channel, &due).await.0 == 20).await;
    let new = |n| Outgoing::to_queue(&spec.name, format!("new {n}"));
    assert!(broker.publish((0..20).map(new).collect()).await.iter().all(Result::is_ok));

    let mut came: Vec<String> = Vec::new();
    let started = std::time::Instant::now();
    while came.len() < 40 {
        assert!(started.elapsed() < DEADLINE, "only {} came: {came:?}", came.len());
        for delivery in broker.receive(&spec.name, 1, Duration::from_secs(1)).await.expect("a delivery") {
            came.push(String::from_utf8_lossy(&delivery.message.body).into_owned());
            assert_eq!(delivery.attempt, 1, "nothing was counted");
            broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0).expect("its end");
        }
    }
    let back = came[..20].iter().filter(|body| body.starts_with("back")).count();
    assert!((5..=15).contains(&back), "neither waits for the end of the other: {came:?}");
    let unique: std::collections::BTreeSet<&String> = came.iter().collect();
    assert_eq!(unique.len(), 40, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_another_client_declared_anew_without_its_limit_is_noticed_and_not_used() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = limited("anew", 5);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let publish = async || broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await.remove(0);
    assert_eq!(publish().await, Ok(()));

    let (_connection, channel) = stranger(&server).await;
    let name = spec.name.as_str();
    let delete = async || {
        channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.expect("their delete")
    };
    delete().await;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.into(), durable, FieldTable::default()).await.expect("their queue");

    until("it is noticed", async || publish().await.is_err()).await;
    let Err(PublishError::Unavailable { detail }) = publish().await else { panic!("it is not used") };
    assert!(detail.contains("x-max-length") && detail.contains(name), "{detail}");
    let health = broker.depth(&spec.name).await;
    assert!(matches!(health, Err(BrokerError::Unavailable { .. })), "{health:?}");
    let received = broker.receive(&spec.name, 1, Duration::from_millis(200)).await;
    assert!(received.is_err(), "nor is it taken from: {received:?}");

    delete().await;
    until("it is made again as it should be", async || publish().await.is_ok()).await;
    assert!(broker.depth(&spec.name).await.is_ok());
    let got = broker.receive(&spec.name, 1, DEADLINE).await.expect("a message");
    assert_eq!(got.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_another_client_declared_anew_is_noticed_by_who_only_looks() {
    let server = servers::rabbitmq();
    let broker = connect(&server).await;
    let spec = limited("looked-at", 5);
    broker.declare(std::slice::from_ref(&spec)).await.expect("the queue");
    let (_connection, channel) = stranger(&server).await;
    let name = spec.name.as_str();
    channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.expect("their delete");
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.into(), durable, FieldTable::default()).await.expect("their queue");
    until("health says so", async || broker.depth(&spec.name).await.is_err()).await;
    let said = broker.depth(&spec.name).await.expect_err("it is another queue").to_string();
    assert!(said.contains("x-max-length"), "{said}");
}
