//! State that all calls on one broker handle share: connection, ledger session, declared queues and their consumers.

use crate::{
    connection::Connection,
    consumer::Consumer,
    error::Failure,
    health::Callbacks,
    local_queue::{InFlight, LocalQueue},
    names::Names,
    wire::Record,
};
use crawlway_broker::{BrokerError, LocalQueues, QueueName, QueueSpec, Receipt};
use crawlway_broker_ledger::{LedgerHandle, MessageKey, Settlement};
use crawlway_store::Ledger;
use parking_lot::Mutex;
use rdkafka::consumer::BaseConsumer;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc::UnboundedReceiver},
};

/// Shared state of a broker handle. Each operation of the contract is an `impl Engine` in a file of its own.
pub(crate) struct Engine {
    pub(crate) connection: Arc<Connection>,
    pub(crate) ledger: LedgerHandle,
    /// Runs tasks that outlive the call that started them.
    pub(crate) runtime: Handle,
    /// Epoch of the receipts of this handle.
    pub(crate) epoch: u64,
    pub(crate) queues: LocalQueues<LocalQueue>,
    pub(crate) consumers: Mutex<HashMap<QueueName, Arc<Consumer>>>,
    /// Clients for the offsets of groups that this process is no member of.
    group_clients: Mutex<HashMap<QueueName, Arc<BaseConsumer<Callbacks>>>>,
    pub(crate) dead_topics: Mutex<std::collections::HashSet<QueueName>>,
    closed: AtomicBool,
    pub(crate) closing: Notify,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(connection: Connection, ledger: Arc<dyn Ledger>, runtime: Handle) -> Self {
        Self {
            ledger: LedgerHandle::new(ledger, &connection.options.client_id),
            connection: Arc::new(connection),
            runtime,
            epoch: Receipt::random_epoch(),
            queues: LocalQueues::default(),
            consumers: Mutex::default(),
            group_clients: Mutex::default(),
            dead_topics: Mutex::default(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn check_open(&self) -> Result<(), Failure> {
        if self.is_closed() { Err(Failure::Closed) } else { Ok(()) }
    }

    /// Marks the handle as closed; `false` if it was.
    pub(crate) fn set_closed(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::Relaxed);
        self.closing.notify_waiters();
        for local in self.queues.all() {
            local.wake();
        }
        first
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

    /// Declared queue of this name.
    pub(crate) fn local_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, BrokerError> {
        self.check_open()?;
        self.queues.get(queue)
    }

    /// Adds a declared queue, or replaces its spec.
    pub(crate) fn register(&self, spec: &QueueSpec, is_paused: bool) {
        let local = self.queues.get_or_insert(&spec.name, || {
            LocalQueue::new(spec.clone(), Names::new(&spec.name, &self.connection.options.group_prefix))
        });
        let mut state = local.state();
        state.spec = spec.clone();
        state.is_paused = is_paused;
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
            let keys = deliveries.iter().map(|delivery| message_key(&queue, &delivery.entry.record));
            self.ledger.settle(keys.collect(), &Settlement::Returned).await;
        }
    }

    /// Receipt of a delivery.
    pub(crate) fn receipt(&self, queue: &QueueName, tag: u64) -> Receipt {
        Receipt { queue: queue.clone(), epoch: self.epoch, tag }
    }
}

/// Key of a message in the ledger.
pub(crate) fn message_key(queue: &QueueName, record: &Record) -> MessageKey {
    let key = record.source.key(record.offset, record.time);
    // Names of queues and these keys are within the limits.
    MessageKey::new(queue.as_str(), key).unwrap_or_else(|error| unreachable!("{error}"))
}
