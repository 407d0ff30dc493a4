//! State that all calls on one broker handle share: connection, ledger session, declared queues and their consumers.

use crate::{
    connection::Connection,
    consumer::Consumer,
    error::Failure,
    health::Callbacks,
    local_queue::{InFlight, LocalQueue},
};
use crawlway_broker::QueueName;
use crawlway_broker_ledger::{Entry as _, Settlement, Shared};
use crawlway_store::Ledger;
use parking_lot::Mutex;
use rdkafka::consumer::BaseConsumer;
use std::{collections::HashMap, ops::Deref, sync::Arc};
use tokio::{runtime::Handle, sync::mpsc::UnboundedReceiver};

/// Shared state of a broker handle. Each operation of the contract is an `impl Engine` in a file of its own, or the same for all
/// brokers on top of the ledger.
pub(crate) struct Engine {
    shared: Shared<Engine>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) consumers: Mutex<HashMap<QueueName, Arc<Consumer>>>,
    /// Clients for the offsets of groups that this process is no member of.
    group_clients: Mutex<HashMap<QueueName, Arc<BaseConsumer<Callbacks>>>>,
    pub(crate) dead_topics: Mutex<std::collections::HashSet<QueueName>>,
}

impl Deref for Engine {
    type Target = Shared<Engine>;

    fn deref(&self) -> &Shared<Engine> {
        &self.shared
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(connection: Connection, ledger: Arc<dyn Ledger>, runtime: Handle) -> Self {
        let options = &connection.options;
        let shared = Shared::new(ledger, &options.client_id, options.cleanup_interval, runtime);
        Self {
            shared,
            connection: Arc::new(connection),
            consumers: Mutex::default(),
            group_clients: Mutex::default(),
            dead_topics: Mutex::default(),
        }
    }

    /// Runs a blocking call of the client.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let connection = self.connection.clone();
        let joined = self.runtime.spawn_blocking(move || call(&connection)).await;
        joined.map_err(|_| Failure::Closed)
    }

    /// The consumer of a queue, if it has one.
    pub(crate) fn consumer(&self, queue: &QueueName) -> Option<Arc<Consumer>> {
        self.consumers.lock().get(queue).cloned()
    }

    /// A client for the offsets of a queue's group.
    pub(crate) fn group_client(&self, local: &LocalQueue) -> Result<Arc<BaseConsumer<Callbacks>>, Failure> {
        let mut clients = self.group_clients.lock();
        if let Some(client) = clients.get(&local.queue) {
            return Ok(client.clone());
        }
        let client = Arc::new(self.connection.group_client(&local.names.group)?);
        clients.insert(local.queue.clone(), client.clone());
        Ok(client)
    }

    /// The consumer of a queue; the first call starts it.
    pub(crate) fn start_consumer(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
    ) -> Result<Arc<Consumer>, Failure> {
        let mut consumers = self.consumers.lock();
        if let Some(consumer) = consumers.get(&local.queue) {
            return Ok(consumer.clone());
        }
        self.check_open()?;
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        let consumer = Arc::new(Consumer::start(&self.connection, local, sender)?);
        consumers.insert(local.queue.clone(), consumer.clone());
        self.runtime.spawn(self.clone().keep(local.clone(), consumer.clone()));
        self.runtime.spawn(self.clone().return_revoked(local.queue.clone(), receiver));
        Ok(consumer)
    }

    /// Returns deliveries of revoked partitions in the ledger: their worker lives.
    async fn return_revoked(
        self: Arc<Self>,
        queue: QueueName,
        mut revoked: UnboundedReceiver<Vec<InFlight>>,
    ) {
        while let Some(deliveries) = revoked.recv().await {
            let keys = deliveries.iter().map(|delivery| delivery.entry.key(&queue));
            self.ledger.settle(keys.collect(), &Settlement::Returned).await;
        }
    }
}
