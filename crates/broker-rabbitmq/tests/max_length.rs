//! Queues with a maximum length: their consumer, fairness, and arguments that another client changed.

mod support;

use crawlway_broker::{
    Broker, BrokerError, MaxLength, Outgoing, PublishError, QueueAdmin, QueueSpec, Timestamp, Verdict,
};
use crawlway_testkit::servers;
use lapin::types::FieldTable;
use std::{collections::BTreeSet, time::Duration};
use support::{
    DEADLINE, counts, eventually, foreign_client, foreign_declare, foreign_delete, open, options, publish,
    queue, receive_one, settle,
};

fn limited(prefix: &str, limit: u64) -> QueueSpec {
    queue(prefix).prefetch(1).max_length(MaxLength::Exact(limit))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_consumer_gets_one_message_at_a_time() {
    let server = servers::rabbitmq();
    let spec = limited("consumed", 10);
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let name = spec.name.as_str();
    let (worker, queue) = (broker.clone(), spec.name.clone());
    // Receives the next message while it settles the one before, as a stage does.
    let (finish, mut finished) = tokio::sync::mpsc::channel::<()>(1);
    let working = tokio::spawn(async move {
        loop {
            let Ok(received) = worker.receive(&queue, 1, Duration::from_millis(250)).await else { continue };
            for delivery in received {
                if finished.recv().await.is_none() {
                    return;
                }
                let settling = worker.settle(vec![(delivery.receipt, Verdict::Done)]);
                let next = worker.receive(&queue, 1, Duration::from_millis(1));
                tokio::join!(settling, next).0.remove(0).expect("it is settled");
            }
        }
    });
    eventually("an empty queue has a consumer", async || counts(&channel, name).await == (0, 1)).await;
    for body in ["a", "b", "c", "d"] {
        publish(&broker, &spec.name, body).await;
    }
    eventually("one is at work", async || counts(&channel, name).await == (3, 1)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(counts(&channel, name).await, (3, 1), "nothing is prefetched, and the consumer stays");
    finish.send(()).await.expect("a worker");
    eventually("the next one is at work", async || counts(&channel, name).await == (2, 1)).await;
    working.abort();
    broker.close().await.expect("the broker closes");
    eventually("the consumer is gone", async || counts(&channel, name).await.1 == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_and_new_messages_take_turns() {
    let server = servers::rabbitmq();
    let spec = limited("turns", 100);
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let soon = Timestamp::now() + Duration::from_millis(100);
    let delayed = |n| Outgoing::to_queue(&spec.name, format!("due {n}")).not_before(soon);
    assert!(broker.publish((0..20).map(delayed).collect()).await.iter().all(Result::is_ok));
    let due = format!("{}:due", spec.name);
    eventually("all are due", async || counts(&channel, &due).await.0 == 20).await;
    let new = |n| Outgoing::to_queue(&spec.name, format!("new {n}"));
    assert!(broker.publish((0..20).map(new).collect()).await.iter().all(Result::is_ok));

    let mut bodies: Vec<String> = Vec::new();
    while bodies.len() < 40 {
        let delivery = receive_one(&broker, &spec.name).await;
        bodies.push(String::from_utf8_lossy(&delivery.message.body).into_owned());
        assert_eq!(delivery.attempt, 1, "a delay counts no attempt");
        settle(&broker, delivery, Verdict::Done).await;
    }
    let due = bodies[..20].iter().filter(|body| body.starts_with("due")).count();
    assert!((5..=15).contains(&due), "neither kind starves the other: {bodies:?}");
    assert_eq!(bodies.iter().collect::<BTreeSet<_>>().len(), 40, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_declared_again_without_its_limit_is_not_used() {
    let server = servers::rabbitmq();
    let spec = limited("anew", 5);
    let broker = open(options(&server), &spec).await;
    let try_publish = async || broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await.remove(0);
    assert_eq!(try_publish().await, Ok(()));

    let (_connection, channel) = foreign_client(&server).await;
    let name = spec.name.as_str();
    foreign_delete(&channel, name).await;
    foreign_declare(&channel, name, FieldTable::default()).await;

    eventually("the publisher notices", async || try_publish().await.is_err()).await;
    let Err(PublishError::Unavailable { detail }) = try_publish().await else { panic!("it is not used") };
    assert!(detail.contains("x-max-length") && detail.contains(name), "{detail}");
    let depth = broker.depth(&spec.name).await;
    assert!(matches!(depth, Err(BrokerError::Unavailable { .. })), "{depth:?}");
    let received = broker.receive(&spec.name, 1, Duration::from_millis(200)).await;
    assert!(received.is_err(), "{received:?}");

    foreign_delete(&channel, name).await;
    eventually("it is declared again with its limit", async || try_publish().await.is_ok()).await;
    assert!(broker.depth(&spec.name).await.is_ok());
    let received = broker.receive(&spec.name, 1, DEADLINE).await.expect("a message");
    assert_eq!(received.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_declared_again_without_its_limit_is_noticed_without_traffic() {
    let server = servers::rabbitmq();
    let spec = limited("looked-at", 5);
    let broker = open(options(&server), &spec).await;
    let (_connection, channel) = foreign_client(&server).await;
    let name = spec.name.as_str();
    foreign_delete(&channel, name).await;
    foreign_declare(&channel, name, FieldTable::default()).await;
    eventually("the depth is an error", async || broker.depth(&spec.name).await.is_err()).await;
    let error = broker.depth(&spec.name).await.expect_err("it is another queue").to_string();
    assert!(error.contains("x-max-length"), "{error}");
}
