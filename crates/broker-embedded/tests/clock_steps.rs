//! Clock steps while the queue is closed: delays keep their length, and no attempt is counted.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use crawlway_broker::{Broker, Outgoing, QueueName, QueueSpec, Verdict};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_clock::{Anchor, Clock, ManualClock, Timestamp};
use std::{path::Path, sync::Arc, time::Duration};

const HOUR: i64 = 3_600_000;

/// Opens the queue with a clock that was set by `offset` milliseconds since boot.
fn open(folder: &Path, clock: &Arc<ManualClock>, boot: &str, offset: i64) -> EmbeddedBroker {
    let anchor = Anchor { boot: boot.to_owned(), offset };
    EmbeddedBroker::open(
        folder,
        Options { clock: Clock::Manual(clock.clone()), anchor, ..Options::default() },
    )
    .unwrap()
}

fn set(clock: &ManualClock, by: i64) {
    clock.set(Timestamp::from_millis(clock.now().as_millis().saturating_add_signed(by)));
}

async fn bodies(broker: &EmbeddedBroker, queue: &QueueName) -> Vec<(String, u32, u32)> {
    let mut bodies: Vec<_> = broker
        .receive(queue, 10, Duration::ZERO)
        .await
        .unwrap()
        .iter()
        .map(|delivery| {
            let body = String::from_utf8(delivery.message.body.to_vec()).unwrap();
            (body, delivery.attempt, delivery.losses)
        })
        .collect();
    bodies.sort();
    bodies
}

/// Publishes three delayed messages, due in 10 s: one deferred, one retried, one with `not_before`.
async fn publish_three_delayed(broker: &EmbeddedBroker, spec: &QueueSpec, now: Timestamp) {
    let later = now + Duration::from_secs(10);
    broker.declare(std::slice::from_ref(spec)).await.unwrap();
    let batch = ["deferred", "retried"].map(|body| Outgoing::to_queue(&spec.name, body));
    broker.publish(batch.into()).await;
    let ahead = Outgoing::to_queue(&spec.name, "published").not_before(later);
    broker.publish(vec![ahead]).await;
    for delivery in broker.receive(&spec.name, 10, Duration::ZERO).await.unwrap() {
        let verdict = match &delivery.message.body[..] {
            b"deferred" => Verdict::Defer { until: later },
            _ => Verdict::Retry { after: Duration::from_secs(10), error: "failed".to_owned() },
        };
        broker.settle(vec![(delivery.receipt, verdict)]).await.remove(0).unwrap();
    }
}

#[tokio::test]
async fn delays_keep_their_length_when_the_clock_is_set() {
    for step in [-HOUR, HOUR] {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        let spec = QueueSpec::new(QueueName::new("q").unwrap());
        let broker = open(folder.path(), &clock, "boot", 0);
        publish_three_delayed(&broker, &spec, clock.now()).await;
        drop(broker);
        set(&clock, step);
        // Twice, since due times must be shifted only once.
        for _ in 0..2 {
            let broker = open(folder.path(), &clock, "boot", step);
            assert_eq!(bodies(&broker, &spec.name).await, [], "not before its time, set by {step}");
        }
        clock.advance(Duration::from_secs(11));
        let broker = open(folder.path(), &clock, "boot", step);
        let expected = [("deferred", 1), ("published", 1), ("retried", 2)];
        let expected = expected.map(|(body, attempt)| (body.to_owned(), attempt, 0));
        assert_eq!(bodies(&broker, &spec.name).await, expected, "set by {step}");
    }
}

#[tokio::test]
async fn due_times_are_not_shifted_after_a_reboot() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let spec = QueueSpec::new(QueueName::new("q").unwrap());
    let broker = open(folder.path(), &clock, "boot", 0);
    publish_three_delayed(&broker, &spec, clock.now()).await;
    drop(broker);
    // The machine was off for an hour.
    set(&clock, HOUR);
    let broker = open(folder.path(), &clock, "another boot", HOUR);
    assert_eq!(bodies(&broker, &spec.name).await.len(), 3, "all are due");
}
