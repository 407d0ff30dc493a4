//! The broker conformance suite, on a real server.

mod support;

use crawlway_broker::{QueueAdmin, QueueName};
use crawlway_broker_conformance::{Process, ServerBackend, ServerHarness};
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_testkit::servers;
use lapin::options::QueueDeleteOptions;

struct RabbitMq;

#[async_trait::async_trait]
impl ServerBackend for RabbitMq {
    type Broker = RabbitBroker;

    async fn start(&self) -> Process<RabbitBroker> {
        Process::start(RabbitBroker::connect(support::options(&servers::rabbitmq()))).await
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
}

fn all_names(queue: &QueueName) -> impl Iterator<Item = String> {
    let delay_queues = (0..8).map(|tier| format!(":wait:{}", 250 << (2 * tier)));
    let suffixes = ["", ".dead", ":due", ":pause"].map(str::to_owned).into_iter().chain(delay_queues);
    suffixes.map(move |suffix| format!("{queue}{suffix}"))
}

crawlway_broker_conformance::conformance_suite!(ServerHarness::new(RabbitMq));
