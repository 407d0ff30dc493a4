//! `BrokerRouter` passes the whole suite, and keeps the queues of two brokers apart.

use crate::support::EmbeddedHarness;
use crawlway_broker::{
    Broker, BrokerRouter, DeadLetterFilter, DeadLetters, ExchangeName, Outgoing, PublishError, QueueAdmin,
    QueueName, QueueSpec, SettleOutcome, TopicPattern, Verdict,
};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{sync::Arc, time::Duration};

crawlway_broker_conformance::conformance_suite!(EmbeddedHarness::new(Duration::from_secs(30), |broker| {
    Arc::new(BrokerRouter::new(Arc::new(broker)))
}));

const WAIT: Duration = Duration::from_secs(5);

fn name(name: &str) -> QueueName {
    QueueName::new(name).expect("a name")
}

/// Brokers `first` (default) and `second`, a router over both with queue `there` on the second, and their folder.
fn two() -> (tempfile::TempDir, [Arc<EmbeddedBroker>; 2], BrokerRouter) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let open = |part| {
        Arc::new(
            EmbeddedBroker::open(&folder.path().join(part), Options::default()).expect("the directory opens"),
        )
    };
    let (first, second) = (open("first"), open("second"));
    let router = BrokerRouter::new(first.clone()).assign(second.clone(), [name("there")]);
    (folder, [first, second], router)
}

#[tokio::test]
async fn each_queue_lives_on_its_broker() {
    let (_folder, [first, second], router) = two();
    router.declare(&[QueueSpec::new(name("here")), QueueSpec::new(name("there"))]).await.unwrap();
    let listed: Vec<String> =
        router.queues().await.unwrap().iter().map(|spec| spec.name.to_string()).collect();
    assert_eq!(listed, ["here", "there"]);
    // A batch for both, with results in its order.
    let batch = ["there", "nowhere", "here", "there"].map(|queue| Outgoing::to_queue(&name(queue), queue));
    let results = router.publish(batch.to_vec()).await;
    assert!(
        matches!(results[..], [Ok(()), Err(PublishError::UnknownQueue { .. }), Ok(()), Ok(())]),
        "{results:?}"
    );
    for (broker, queue, count) in [(&first, "here", 1), (&second, "there", 2)] {
        assert_eq!(broker.depth(&name(queue)).await.unwrap().ready, count);
        assert_eq!(router.pending(&name(queue)).await.unwrap(), count);
    }
    let mut taken = router.receive(&name("here"), 1, WAIT).await.unwrap();
    taken.extend(router.receive(&name("there"), 2, WAIT).await.unwrap());
    let receipts: Vec<_> = taken.iter().map(|delivery| delivery.receipt.clone()).collect();
    assert!(router.extend(&receipts, WAIT).await.iter().all(Result::is_ok));
    let verdicts =
        [Verdict::Dead { reason: "no".into() }, Verdict::Done, Verdict::Dead { reason: "no".into() }];
    // Interleaved, so that the order of the results matters.
    let order = [1, 0, 2].map(|at: usize| (receipts[at].clone(), verdicts[at].clone()));
    let settled = router.settle(order.to_vec()).await;
    assert!(matches!(settled[0], Ok(SettleOutcome::Done)), "{settled:?}");
    for queue in ["here", "there"] {
        let replayed = router.replay(&name(queue), &DeadLetterFilter::all()).await.unwrap();
        assert_eq!(replayed.count, 1, "{queue}");
    }
    router.close().await.unwrap();
    assert!(first.queues().await.is_err() && second.queues().await.is_err(), "both are closed");
}

#[tokio::test]
async fn guarantees_of_a_queue_are_those_of_its_broker() {
    let folder = tempfile::tempdir().unwrap();
    let open = |part, max_message| {
        let options = Options { max_message, ..Options::default() };
        Arc::new(EmbeddedBroker::open(&folder.path().join(part), options).unwrap())
    };
    let router = BrokerRouter::new(open("first", 1 << 20)).assign(open("second", 2 << 20), [name("there")]);
    assert_eq!(router.guarantees().max_message, 1 << 20);
    assert_eq!(router.guarantees_of(&name("here")).max_message, 1 << 20);
    assert_eq!(router.guarantees_of(&name("there")).max_message, 2 << 20);
}

#[tokio::test]
async fn a_topic_reaches_bound_queues_on_both_brokers() {
    let (_folder, [first, second], router) = two();
    let (exchange, pattern) = (ExchangeName::new("scraped").unwrap(), TopicPattern::new("#").unwrap());
    let bound = |queue| QueueSpec::new(name(queue)).bind(exchange.clone(), pattern.clone());
    router.declare(&[bound("here"), bound("there")]).await.unwrap();
    let results = router.publish(vec![Outgoing::to_topic(&exchange, "kijiji", "x").id("one")]).await;
    assert_eq!(results, [Ok(())]);
    assert_eq!(first.depth(&name("here")).await.unwrap().ready, 1);
    assert_eq!(second.depth(&name("there")).await.unwrap().ready, 1);
}
