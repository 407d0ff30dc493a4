//! RabbitMQ passes the whole conformance suite, on a real server.

use crawlway_broker::{Broker, conformance::Harness};
use crawlway_broker_rabbitmq::{Options, RabbitBroker};
use crawlway_testkit::servers;
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
        let server = servers::rabbitmq();
        let options = Options {
            host: server.host,
            port: server.port,
            user: server.user,
            password: server.password,
            management: Some(server.management),
            ..Options::default()
        };
        let broker = runtime.spawn(RabbitBroker::connect(options)).await.expect("the connecting task");
        let broker = Arc::new(broker.expect("the server answers"));
        self.open.push((broker.clone(), runtime));
        broker
    }
}

impl Drop for RabbitHarness {
    fn drop(&mut self) {
        for (_, runtime) in self.open.drain(..) {
            runtime.shutdown_background();
        }
    }
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

    async fn cut(&mut self) -> Arc<dyn Broker> {
        if let Some((_, runtime)) = self.open.pop() {
            runtime.shutdown_background();
        }
        self.open().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Broker>> {
        Some(self.open().await)
    }
}

crawlway_broker::conformance_suite!(RabbitHarness::default());
