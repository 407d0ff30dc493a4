//! The broker conformance suite, on a real server.

mod support;

use crawlway_broker::{Broker, QueueAdmin, QueueBackend, QueueName};
use crawlway_broker_conformance::Harness;
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_testkit::servers;
use lapin::options::QueueDeleteOptions;
use std::sync::Arc;
use support::Process;

#[derive(Default)]
struct RabbitHarness {
    open: Vec<Process>,
}

impl RabbitHarness {
    async fn open(&mut self) -> Arc<dyn QueueBackend> {
        let process = Process::start(support::options(&servers::rabbitmq())).await;
        let broker = process.broker.clone();
        self.open.push(process);
        broker
    }
}

/// Deletes the queues: the server is shared, and thousands of them would use up its memory.
impl Drop for RabbitHarness {
    fn drop(&mut self) {
        for process in self.open.drain(..) {
            let (broker, runtime) = (process.broker.clone(), process.runtime.handle().clone());
            // In a thread, since this one belongs to a runtime and must not block.
            let _ = std::thread::spawn(move || runtime.block_on(delete_queues(&broker))).join();
            process.kill();
        }
    }
}

async fn delete_queues(broker: &RabbitBroker) {
    let Ok(specs) = broker.queues().await else { return };
    let (connection, channel) = support::foreign_client(&servers::rabbitmq()).await;
    for name in specs.iter().flat_map(|spec| all_names(&spec.name)) {
        let nowait = QueueDeleteOptions { nowait: true, ..QueueDeleteOptions::default() };
        let _ = channel.queue_delete(name.into(), nowait).await;
    }
    let _ = connection.close(200, "done".into()).await;
}

fn all_names(queue: &QueueName) -> impl Iterator<Item = String> {
    let delay_queues = (0..8).map(|tier| format!(":wait:{}", 250 << (2 * tier)));
    let suffixes = ["", ".dead", ":due", ":pause"].map(str::to_owned).into_iter().chain(delay_queues);
    suffixes.map(move |suffix| format!("{queue}{suffix}"))
}

#[async_trait::async_trait]
impl Harness for RabbitHarness {
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
}

crawlway_broker_conformance::conformance_suite!(RabbitHarness::default());
