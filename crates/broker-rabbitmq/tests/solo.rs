//! Solo markers: which crashes they count, and that none is left behind.

mod support;

use crawlway_broker::{
    Broker, DeadLetterCause, DeadLetterFilter, DeadLetters, Delivery, QueueAdmin, QueueName, Timestamp,
    Verdict,
};
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_testkit::servers::{self, RabbitMq};
use lapin::types::{AMQPValue, FieldTable};
use std::time::Duration;
use support::{
    eventually, foreign_client, foreign_declare, management, open, options, process_with_queue, proxied,
    publish, queue, receive_one, settle,
};

/// Solo markers of a queue on the server.
async fn markers(server: &RabbitMq, queue: &QueueName) -> Vec<String> {
    let path = format!("/api/queues/%2F?page=1&page_size=100&columns=name&name={queue}%3Aalone%3A");
    let answer = management(server, "GET", &path, "").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let names = answer.split('"').filter(|part| part.starts_with(&format!("{queue}:alone:")));
    names.map(str::to_owned).collect()
}

async fn no_marker_is_left(server: &RabbitMq, queue: &QueueName, after: &str) {
    let what = format!("no marker is left after {after}");
    eventually(&what, async || markers(server, queue).await.is_empty()).await;
}

/// Receives a message, starts its solo run, and returns it with its marker.
async fn start_solo(server: &RabbitMq, broker: &RabbitBroker, queue: &QueueName) -> (Delivery, String) {
    let delivery = receive_one(broker, queue).await;
    for _ in 0..2 {
        assert_eq!(broker.mark_solo(&delivery.receipt).await, Ok(()), "idempotent");
    }
    let markers = markers(server, queue).await;
    assert_eq!(markers.len(), 1, "{markers:?}");
    (delivery, markers[0].clone())
}

/// Verdicts after which the message is delivered again at once.
fn redelivering_verdicts() -> [Verdict; 3] {
    [
        Verdict::Retry { after: Duration::ZERO, error: "it rained".into() },
        Verdict::Defer { until: Timestamp::now() },
        Verdict::Requeue,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_marker_counts_no_solo_crash() {
    let server = servers::rabbitmq();
    let (_connection, channel) = foreign_client(&server).await;
    for verdict in redelivering_verdicts() {
        let spec = queue("stale").max_solo_crashes(1);
        let worker = process_with_queue(options(&server), &spec).await;
        publish(&worker.broker, &spec.name, "a").await;
        let (solo, marker) = start_solo(&server, &worker.broker, &spec.name).await;
        settle(&worker.broker, solo, verdict.clone()).await;
        no_marker_is_left(&server, &spec.name, "a settle").await;

        // As if the worker had been killed before it deleted the marker.
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), AMQPValue::LongLongInt(600_000));
        foreign_declare(&channel, &marker, arguments).await;
        let lost = receive_one(&worker.broker, &spec.name).await;
        worker.kill();

        let next = process_with_queue(options(&server), &spec).await;
        let again = receive_one(&next.broker, &spec.name).await;
        assert_eq!(
            (again.attempt, again.losses),
            (lost.attempt, 1),
            "suspect and no more, after {verdict:?}"
        );
        assert_eq!(markers(&server, &spec.name).await, [marker], "it was there all the time");
        settle(&next.broker, again, Verdict::Done).await;
        let dead = next.broker.dead_letters(&spec.name, &DeadLetterFilter::all(), None, 10).await;
        assert!(dead.expect("the dead letters").letters.is_empty());
        next.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn markers_are_deleted_after_every_end_of_a_solo_run() {
    let server = servers::rabbitmq();
    let spec = queue("tidy").lease(Duration::from_secs(2)).max_attempts(100).max_solo_crashes(2);
    let name = &spec.name;
    let worker = process_with_queue(options(&server), &spec).await;
    publish(&worker.broker, name, "a").await;
    let (solo, _) = start_solo(&server, &worker.broker, name).await;
    let depth = worker.broker.depth(name).await.expect("the depth");
    assert_eq!((depth.pending(), depth.in_flight, depth.dead), (0, 1, 0), "a marker is no message");
    assert_eq!(worker.broker.purge(name).await, Ok(0));
    assert_eq!(markers(&server, name).await.len(), 1, "a purge keeps it");
    settle(&worker.broker, solo, Verdict::Requeue).await;
    no_marker_is_left(&server, name, "its first settle").await;
    for verdict in redelivering_verdicts() {
        let (solo, _) = start_solo(&server, &worker.broker, name).await;
        settle(&worker.broker, solo, verdict).await;
        no_marker_is_left(&server, name, "a settle").await;
    }

    let (solo, _) = start_solo(&server, &worker.broker, name).await;
    tokio::time::sleep(solo.lease_until.since(Timestamp::now())).await;
    no_marker_is_left(&server, name, "its lease expired").await;

    start_solo(&server, &worker.broker, name).await;
    worker.kill();
    let worker = process_with_queue(options(&server), &spec).await;
    let again = receive_one(&worker.broker, name).await;
    assert_eq!(again.losses, 2, "by the lease and by the worker");
    no_marker_is_left(&server, name, "its first solo crash").await;
    settle(&worker.broker, again, Verdict::Requeue).await;
    start_solo(&server, &worker.broker, name).await;
    worker.kill();

    let broker = open(options(&server), &spec).await;
    eventually("it is dead", async || {
        let received = broker.receive(name, 1, Duration::from_millis(200)).await.expect("no error");
        assert!(received.is_empty(), "it crashed two workers: {received:?}");
        broker.depth(name).await.expect("the depth").dead == 1
    })
    .await;
    no_marker_is_left(&server, name, "its death").await;
    let letters =
        broker.dead_letters(name, &DeadLetterFilter::all(), None, 10).await.expect("the page").letters;
    assert_eq!(letters[0].cause, DeadLetterCause::WorkerLost);
    assert_eq!(letters[0].reason, "its worker was lost 2 times while it ran nothing else");

    for verdict in [Verdict::Done, Verdict::Dead { reason: "hopeless".into() }] {
        publish(&broker, name, "a").await;
        let (solo, _) = start_solo(&server, &broker, name).await;
        settle(&broker, solo, verdict).await;
        no_marker_is_left(&server, name, "its end").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_of_a_live_worker_counts_no_loss_in_the_same_process() {
    let server = servers::rabbitmq();
    let (proxy, options_through_proxy) = proxied(&server).await;
    let spec = queue("lived").max_solo_crashes(1);
    let worker = process_with_queue(options_through_proxy, &spec).await;
    publish(&worker.broker, &spec.name, "a").await;
    // From the queue itself, and then from `:due`.
    for _ in 0..2 {
        let (solo, _) = start_solo(&server, &worker.broker, &spec.name).await;
        proxy.close_all();
        let again = receive_one(&worker.broker, &spec.name).await;
        assert_eq!((again.attempt, again.losses), (solo.attempt, 0), "the worker was never lost");
        no_marker_is_left(&server, &spec.name, "a lost connection").await;
        settle(&worker.broker, again, Verdict::Defer { until: Timestamp::now() }).await;
    }
    // Killed during a run that is not solo.
    receive_one(&worker.broker, &spec.name).await;
    worker.kill();
    let next = process_with_queue(options(&server), &spec).await;
    assert_eq!(receive_one(&next.broker, &spec.name).await.losses, 1, "suspect and no more");
    next.kill();
}
