//! The broker conformance suite, on a real server.

mod support;

use crawlway_broker::LengthLimited;
use crawlway_broker_conformance::{Process, ServerBackend, ServerHarness};
use crawlway_broker_kafka::KafkaBroker;
use crawlway_testkit::servers;
use std::time::Duration;
use support::TestLedger;

struct Kafka {
    ledger: TestLedger,
}

#[async_trait::async_trait]
impl ServerBackend for Kafka {
    type Broker = LengthLimited<KafkaBroker>;

    async fn start(&self) -> Process<Self::Broker> {
        support::start(support::options(&servers::kafka()), &self.ledger).await
    }

    async fn delete_queues(broker: &Self::Broker) {
        support::delete_topics(broker, &servers::kafka()).await;
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

crawlway_broker_conformance::conformance_suite!(ServerHarness::new(Kafka {
    ledger: TestLedger::open().await
}));
