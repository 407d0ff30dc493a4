//! The broker conformance suite, on a stand-in of SQS.

use crawlway_broker::{LengthLimited, QueueAdmin};
use crawlway_broker_conformance::{Process, ServerBackend, ServerHarness};
use crawlway_broker_sqs::{Options, SqsBroker, StaticCredentials};
use crawlway_testkit::{ledger::TestLedger, servers};
use std::time::Duration;

struct Sqs {
    ledger: TestLedger,
}

fn options() -> Options {
    Options {
        region: Some("us-east-1".into()),
        endpoint: Some(servers::sqs()),
        credentials: Some(StaticCredentials {
            access_key_id: "test".into(),
            secret_access_key: "test".into(),
            session_token: None,
        }),
        visibility: Duration::from_secs(8),
        poll_wait: Duration::from_secs(1),
        depth_lag: Duration::ZERO,
        ..Options::default()
    }
}

#[async_trait::async_trait]
impl ServerBackend for Sqs {
    type Broker = LengthLimited<SqsBroker>;

    async fn start(&self) -> Process<Self::Broker> {
        Process::start(crawlway_broker_sqs::connect(options(), self.ledger.ledger.clone())).await
    }

    async fn delete_queues(broker: &Self::Broker) {
        // Unique names, and a server of this run alone.
        let _ = broker.queues().await;
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

crawlway_broker_conformance::conformance_suite!(ServerHarness::new(Sqs { ledger: TestLedger::open().await }));
