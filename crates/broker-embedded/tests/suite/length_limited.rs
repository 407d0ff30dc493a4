//! `LengthLimited` on a queue without a maximum length passes the whole suite, within its slack.

use crate::faulty::{Fault, Faulty};
use crate::support::EmbeddedHarness;
use crawlway_broker::{
    Aspect, Broker, Guarantees, LengthLimited, MaxLength, Outgoing, PublishError, QueueAdmin, QueueBackend,
    QueueName, QueueSpec, Support,
};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;

/// Number of concurrent handles that the slack allows for.
const HANDLES: u64 = 4;
const SLACK: u64 = HANDLES * LengthLimited::<Faulty>::STEP as u64;

fn support(aspect: Aspect) -> Support {
    match aspect {
        Aspect::MaxLengthExact => Support::Refused { why: "no such limit" },
        Aspect::MaxLengthApproximate => Support::Emulated { caveat: "from the depth at the publisher" },
        _ => Support::Native,
    }
}

fn limited(inner: Arc<EmbeddedBroker>, fault: Fault, depth_lag: Duration) -> LengthLimited<Faulty> {
    let guarantees = Guarantees { support, max_length_slack: SLACK, depth_lag, ..inner.guarantees() };
    LengthLimited::new(Faulty { inner, fault }, guarantees)
}

crawlway_broker_conformance::conformance_suite!(EmbeddedHarness::new(Duration::from_secs(30), |broker| {
    Arc::new(limited(Arc::new(broker), Fault::Nothing, Duration::ZERO))
}));

/// An open queue in a temporary folder, and a spec with this maximum length.
fn open(limit: u64) -> (TempDir, Arc<EmbeddedBroker>, QueueSpec) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let broker = EmbeddedBroker::open(folder.path(), Options::default()).expect("the directory opens");
    let name = QueueName::new("about").expect("a name");
    let spec = QueueSpec::new(name).max_length(MaxLength::Approximate { limit, slack: SLACK });
    (folder, Arc::new(broker), spec)
}

/// Publishes a batch; returns how many were accepted before the first rejection, and in total.
async fn publish(broker: &dyn QueueBackend, spec: &QueueSpec, count: usize) -> (usize, usize) {
    let outcomes = broker.publish(vec![Outgoing::to_queue(&spec.name, "a"); count]).await;
    for outcome in &outcomes {
        let known = matches!(outcome, Ok(()) | Err(PublishError::QueueFull { .. }));
        assert!(known, "only a full queue may reject: {outcome:?}");
    }
    let first = outcomes.iter().take_while(|outcome| outcome.is_ok()).count();
    (first, outcomes.iter().filter(|outcome| outcome.is_ok()).count())
}

#[tokio::test]
async fn one_publisher_never_exceeds_the_limit() {
    let (_folder, inner, spec) = open(25);
    assert_eq!(inner.guarantees().max_length(1000), MaxLength::Exact(1000));
    let broker = limited(inner, Fault::Nothing, Duration::ZERO);
    assert_eq!(broker.guarantees().max_length(1000), MaxLength::Approximate { limit: 1000, slack: SLACK });
    broker.declare(std::slice::from_ref(&spec)).await.expect("an approximate limit");
    assert_eq!(publish(&broker, &spec, 60).await, (25, 25));
    let declared = &broker.inner().queues().await.expect("the queues")[0];
    assert_eq!(declared.max_length, None, "the inner queue has no maximum length");
    assert_eq!(broker.queues().await.expect("the queues")[0].max_length, spec.max_length);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_handles_stay_within_the_slack() {
    let (_folder, inner, spec) = open(100);
    let mut racing = Vec::new();
    for _ in 0..HANDLES {
        let (broker, spec) = (limited(inner.clone(), Fault::Nothing, Duration::ZERO), spec.clone());
        broker.declare(std::slice::from_ref(&spec)).await.expect("an approximate limit");
        racing.push(tokio::spawn(async move {
            let mut taken = 0;
            for _ in 0..20 {
                taken += publish(&broker, &spec, 15).await.1 as u64;
            }
            taken
        }));
    }
    let mut taken = 0;
    for racer in racing {
        taken += racer.await.expect("a publisher");
    }
    assert!((100..=100 + SLACK).contains(&taken), "{taken} were taken by a limit of 100");
}

#[tokio::test]
async fn a_lagging_depth_does_not_exceed_the_limit() {
    let (_folder, inner, spec) = open(7);
    let broker = limited(inner, Fault::DepthIsConstant, Duration::from_secs(3600));
    broker.declare(std::slice::from_ref(&spec)).await.expect("an approximate limit");
    assert_eq!(publish(&broker, &spec, 3).await, (3, 3));
    assert_eq!(publish(&broker, &spec, 9).await, (4, 4), "what was sent counts, though no depth shows it");
}
