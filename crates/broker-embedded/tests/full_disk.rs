//! Full disk: publishes fail cleanly, settling continues, and publishing continues once there is space.

use crawlway_broker::{Broker, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, Verdict};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};

fn main() {
    crawlway_testkit::full_disk::run("a_full_disk_loses_nothing_and_heals", "12m", fill_drain_and_go_on);
}

async fn fill_drain_and_go_on(disk: PathBuf) {
    let directory = disk.join("queue");
    let options =
        || Options { max_segment: 1 << 20, housekeeping: Duration::from_millis(10), ..Options::default() };
    let queue = QueueName::new("q").expect("a name");
    let spec = QueueSpec::new(queue.clone()).prefetch(10_000);
    let broker = EmbeddedBroker::open(&directory, options()).expect("the directory opens");
    broker.declare(&[spec]).await.expect("declared");

    let mut accepted = BTreeSet::new();
    let error = fill(&broker, &queue, &mut accepted).await;
    let text = error.to_string();
    assert!(matches!(error, PublishError::Unavailable { .. }), "certainly not accepted: {text}");
    assert!(
        text.contains("full") && text.contains("free some space"),
        "names the problem and the remedy: {text}"
    );
    let health = broker.accepts_publishes().expect_err("health reports it");
    assert!(health.to_string().contains("full"), "{health}");
    assert!(!health.to_string().contains(&disk.display().to_string()), "without saying where: {health}");
    assert!(accepted.len() > 1000, "the disk was filled, with {}", accepted.len());

    // Even without a free byte, all accepted messages can be received and settled.
    let rest = std::fs::File::create(disk.join("rest")).expect("a file");
    let mut taken = 0;
    while std::os::unix::fs::FileExt::write_at(&rest, &[1; 4096], taken).is_ok_and(|n| n > 0) {
        taken += 4096;
    }
    let half = accepted.len() / 2;
    let mut settled = settle(&broker, &queue, half).await;
    assert!(settled.len() >= half, "settling continues");
    broker.close().await.expect("closed");
    drop(broker);

    let broker =
        EmbeddedBroker::open(&directory, options()).expect("a full disk does not keep the queue shut");
    std::fs::remove_file(disk.join("rest")).expect("removed");
    // Space is free again: settled segments and the removed file.
    while broker.accepts_publishes().is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut later = BTreeSet::new();
    publish(&broker, &queue, 90_000, &mut later).await.expect("publishing resumes");
    accepted.extend(later);
    let rest = accepted.len() - settled.len();
    for id in settle(&broker, &queue, rest).await {
        assert!(settled.insert(id.clone()), "{id} is redelivered after its settle returned ok");
    }
    assert_eq!(settled, accepted, "nothing is lost");
    let depth = broker.depth(&queue).await.expect("the depth");
    assert_eq!((depth.pending(), depth.in_flight), (0, 0));
}

/// Publishes until an error.
async fn fill(broker: &EmbeddedBroker, queue: &QueueName, accepted: &mut BTreeSet<String>) -> PublishError {
    for start in 0.. {
        if let Err(error) = publish(broker, queue, start * 100, accepted).await {
            return error;
        }
    }
    unreachable!("no disk is that large");
}

async fn publish(
    broker: &EmbeddedBroker,
    queue: &QueueName,
    start: usize,
    accepted: &mut BTreeSet<String>,
) -> Result<(), PublishError> {
    let message = |n: usize| Outgoing::to_queue(queue, vec![b'x'; 1000]).id(format!("m{n}").as_str());
    let batch: Vec<Outgoing> = (start..start + 100).map(message).collect();
    let ids: Vec<String> = batch.iter().map(|message| message.id.to_string()).collect();
    let mut result = Ok(());
    for (id, outcome) in ids.into_iter().zip(broker.publish(batch).await) {
        match outcome {
            Ok(()) => drop(accepted.insert(id)),
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Receives and settles at least this many.
async fn settle(broker: &EmbeddedBroker, queue: &QueueName, count: usize) -> BTreeSet<String> {
    let mut settled = BTreeSet::new();
    while settled.len() < count {
        let deliveries = broker.receive(queue, 64, Duration::from_secs(5)).await.expect("received");
        assert!(!deliveries.is_empty(), "only {} of {count} are there", settled.len());
        for delivery in deliveries {
            let id = delivery.message.id.to_string();
            let outcome = broker.settle(vec![(delivery.receipt, Verdict::Done)]).await.remove(0);
            outcome.unwrap_or_else(|error| panic!("{id}: {error}"));
            settled.insert(id);
        }
    }
    settled
}
