//! RabbitMQ passes the whole conformance suite, on a real server.

mod support;

use crawlway_broker::{Broker, QueueName};
use crawlway_broker_conformance::Harness;
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_testkit::servers;
use lapin::options::QueueDeleteOptions;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Each handle has a runtime of its own, which stands for its process: without it, nothing of the handle goes on.
#[derive(Default)]
struct RabbitHarness {
    open: Vec<(Arc<RabbitBroker>, Runtime)>,
}

impl RabbitHarness {
    async fn open(&mut self) -> Arc<dyn Broker> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for the handle");
        let options = support::options(&servers::rabbitmq());
        let broker = runtime.spawn(RabbitBroker::connect(options)).await.expect("the connecting task");
        let broker = Arc::new(broker.expect("the server answers"));
        self.open.push((broker.clone(), runtime));
        broker
    }
}

/// The server is shared, and thousands of unused queues would use up its memory.
impl Drop for RabbitHarness {
    fn drop(&mut self) {
        for (broker, runtime) in self.open.drain(..) {
            let known = runtime.handle().clone();
            // A thread of its own, since this one is in a runtime, which must not be blocked on.
            let tidied = std::thread::spawn(move || known.block_on(tidy_up(&broker))).join();
            drop(tidied);
            runtime.shutdown_background();
        }
    }
}

async fn tidy_up(broker: &RabbitBroker) {
    let Ok(specs) = broker.queues().await else { return };
    let (connection, channel) = support::stranger(&servers::rabbitmq()).await;
    for spec in specs {
        for name in everything_of(&spec.name) {
            let at_once = QueueDeleteOptions { nowait: true, ..QueueDeleteOptions::default() };
            let _ = channel.queue_delete(name.as_str().into(), at_once).await;
        }
    }
    let _ = connection.close(200, "done".into()).await;
}

fn everything_of(queue: &QueueName) -> Vec<String> {
    let tiers = (0..8).map(|tier| format!("{queue}:wait:{}", 250 << (2 * tier)));
    let beside =
        [queue.to_string(), format!("{queue}.dead"), format!("{queue}:due"), format!("{queue}:pause")];
    beside.into_iter().chain(tiers).collect()
}

#[async_trait::async_trait]
impl Harness for RabbitHarness {
    async fn fresh(&mut self) -> Arc<dyn Broker> {
        self.open().await
    }

    async fn restart(&mut self) -> Arc<dyn Broker> {
        if let Some((broker, _)) = self.open.last() {
            broker.close().await.expect("the broker closes");
        }
        self.open().await
    }

    async fn crash(&mut self) -> Arc<dyn Broker> {
        if let Some((_, runtime)) = self.open.pop() {
            runtime.shutdown_background();
        }
        self.open().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Broker>> {
        Some(self.open().await)
    }
}

crawlway_broker_conformance::conformance_suite!(RabbitHarness::default());
