//! A broker without limits of its own, with those that publishers count: it passes the whole suite, and its bound holds.

mod oracle;

use crawlway_broker::{
    Aspect, Broker, Guarantees, Limited, MaxLength, Outgoing, PublishError, QueueName, QueueSpec, Support,
    Timestamp, conformance::Harness,
};
use oracle::{Fault, Manner, Oracle, OracleHarness};
use std::{sync::Arc, time::Duration};

/// For so many handles at once the bound is stated.
const HANDLES: u64 = 4;
const SLACK: u64 = HANDLES * Limited::<Oracle>::STEP as u64;

fn support(aspect: Aspect) -> Support {
    match aspect {
        Aspect::LimitExact => Support::Refused { why: "no such limit" },
        Aspect::LimitApproximate => Support::Emulated { caveat: "from the depth at the publisher" },
        _ => Support::Native,
    }
}

fn limited(inner: Oracle) -> Limited<Oracle> {
    let guarantees = Guarantees { support, limit_slack: SLACK, ..inner.guarantees() };
    Limited::new(inner, guarantees)
}

/// The oracle, which is never told of a limit.
struct LimitedHarness(OracleHarness);

impl LimitedHarness {
    fn new() -> Self {
        Self(OracleHarness::new(Manner::Native, Fault::Nothing))
    }
}

#[async_trait::async_trait]
impl Harness for LimitedHarness {
    async fn fresh(&mut self) -> Arc<dyn Broker> {
        self.0.fresh().await;
        Arc::new(limited(self.0.another()))
    }

    async fn restart(&mut self) -> Arc<dyn Broker> {
        self.0.restart().await;
        Arc::new(limited(self.0.another()))
    }

    async fn cut(&mut self) -> Arc<dyn Broker> {
        self.0.cut().await;
        Arc::new(limited(self.0.another()))
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Broker>> {
        Some(Arc::new(limited(self.0.another())))
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn pass(&mut self, time: Duration) {
        self.0.pass(time).await;
    }

    fn beat(&self) -> Duration {
        self.0.beat()
    }

    fn deadline(&self) -> Duration {
        self.0.deadline()
    }
}

mod suite {
    use super::*;
    crawlway_broker::conformance_suite!(LimitedHarness::new());
}

fn spec(limit: u64) -> QueueSpec {
    let name = QueueName::new("about").expect("a name");
    QueueSpec::new(name).max_length(MaxLength::Approximate { limit, slack: SLACK })
}

/// Publishes one by one until the queue is full, and says how many were taken.
async fn fill(broker: &dyn Broker, spec: &QueueSpec) -> u64 {
    for taken in 0..10_000 {
        match broker.publish(vec![Outgoing::to_queue(&spec.name, "a")]).await.remove(0) {
            Ok(()) => {}
            Err(PublishError::QueueFull { .. }) => return taken,
            Err(error) => panic!("only a full queue may reject: {error}"),
        }
    }
    panic!("it is never full")
}

#[tokio::test]
async fn a_limit_is_asked_for_as_the_broker_can_hold_it() {
    let harness = OracleHarness::new(Manner::Native, Fault::Nothing);
    let plain = harness.another();
    assert_eq!(plain.guarantees().limit(1000), MaxLength::Exact(1000));
    let broker = limited(plain);
    assert_eq!(broker.guarantees().limit(1000), MaxLength::Approximate { limit: 1000, slack: SLACK });
}

#[tokio::test]
async fn one_publisher_does_not_overshoot_however_large_its_batches_are() {
    let harness = OracleHarness::new(Manner::Native, Fault::Nothing);
    let (broker, spec) = (limited(harness.another()), spec(25));
    broker.declare(std::slice::from_ref(&spec)).await.expect("an approximate limit");
    let outcomes = broker.publish(vec![Outgoing::to_queue(&spec.name, "a"); 60]).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 25);
    let full = PublishError::QueueFull { queue: spec.name.clone(), limit: 25 };
    assert!(outcomes[25..].iter().all(|outcome| *outcome == Err(full.clone())), "{outcomes:?}");
    assert_eq!(
        broker.inner().queues().await.expect("the queues")[0].max_length,
        None,
        "it is told of no limit"
    );
    assert_eq!(broker.queues().await.expect("the queues")[0].max_length, spec.max_length);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_that_race_overshoot_by_no_more_than_is_stated() {
    let harness = OracleHarness::new(Manner::Native, Fault::Nothing);
    let spec = spec(100);
    let mut racing = Vec::new();
    for _ in 0..HANDLES {
        let broker = limited(harness.another());
        broker.declare(std::slice::from_ref(&spec)).await.expect("an approximate limit");
        let spec = spec.clone();
        racing.push(tokio::spawn(async move {
            let mut taken = 0;
            for _ in 0..20 {
                let outcomes = broker.publish(vec![Outgoing::to_queue(&spec.name, "a"); 15]).await;
                taken += outcomes.iter().filter(|outcome| outcome.is_ok()).count() as u64;
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
async fn a_depth_that_lags_does_not_open_the_queue() {
    // Its clock stands still, so that its depths never catch up.
    let inner = OracleHarness::new(Manner::Emulated, Fault::Nothing).another();
    let lag = Duration::from_secs(3600);
    let guarantees = Guarantees { support, limit_slack: SLACK, depth_lag: lag, ..inner.guarantees() };
    let (broker, spec) = (Limited::new(inner, guarantees), spec(7));
    broker.declare(std::slice::from_ref(&spec)).await.expect("an approximate limit");
    assert_eq!(fill(&broker, &spec).await, 7);
    assert_eq!(broker.depth(&spec.name).await.expect("a depth").waiting(), 0, "the depth lags behind");
}
