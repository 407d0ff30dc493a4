//! The broker conformance suite, on a real server.

mod support;

use crawlway_broker::{Broker, QueueBackend};
use crawlway_broker_conformance::Harness;
use crawlway_testkit::servers;
use std::{sync::Arc, time::Duration};
use support::{Process, TestLedger};

struct KafkaHarness {
    ledger: TestLedger,
    open: Vec<Process>,
}

impl KafkaHarness {
    async fn new() -> Self {
        Self { ledger: TestLedger::open().await, open: Vec::new() }
    }

    async fn open(&mut self) -> Arc<dyn QueueBackend> {
        let process = Process::start(support::options(&servers::kafka()), self.ledger.ledger.clone()).await;
        let broker = process.broker.clone();
        self.open.push(process);
        broker
    }
}

impl Drop for KafkaHarness {
    fn drop(&mut self) {
        for process in self.open.drain(..) {
            let (broker, runtime) = (process.broker.clone(), process.handle());
            // In a thread, since this one belongs to a runtime and must not block.
            let delete = move || runtime.block_on(support::delete_topics(&*broker, &servers::kafka()));
            let _ = std::thread::spawn(delete).join();
            process.kill();
        }
    }
}

#[async_trait::async_trait]
impl Harness for KafkaHarness {
    async fn fresh(&mut self) -> Arc<dyn QueueBackend> {
        self.open().await
    }

    async fn restart(&mut self) -> Arc<dyn QueueBackend> {
        if let Some(process) = self.open.last() {
            process.broker.close().await.expect("the broker closes");
        }
        self.open().await
    }

    async fn crash(&mut self) -> Arc<dyn QueueBackend> {
        if let Some(process) = self.open.pop() {
            process.kill();
        }
        self.open().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn QueueBackend>> {
        Some(self.open().await)
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(60)
    }
}

crawlway_broker_conformance::conformance_suite!(KafkaHarness::new().await);
