//! State that all calls on one broker handle share: connection, ledger session, declared queues and their consumers.

use crate::{
    connection::Connection,
    consumer::Consumer,
    error::Failure,
    health::Callbacks,
    local_queue::{InFlight, LocalQueue},
    names::Names,
    session::Session,
    wire::Record,
};
use crawlway_broker::{BrokerError, QueueName, QueueSpec, Receipt};
use crawlway_store::{
    Ledger,
    ledger::{MessageKey, Settlement},
};
use parking_lot::{Mutex, RwLock};
use rdkafka::consumer::BaseConsumer;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc::UnboundedReceiver},
};

/// How long exchanges' bindings are used before they are read again.
const BINDINGS_AGE: Duration = Duration::from_secs(1);

/// Bindings of an exchange: queue and pattern, and when they were read.
type Bindings = (Instant, Vec<(String, String)>);

/// Shared state of a broker handle. Each operation of the contract is an `impl Engine` in a file of its own.
pub(crate) struct Engine {
    pub(crate) connection: Arc<Connection>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) session: Session,
    /// Runs tasks that outlive the call that started them.
    pub(crate) runtime: Handle,
    /// Epoch of the receipts of this handle.
    pub(crate) epoch: u64,
    queues: RwLock<BTreeMap<QueueName, Arc<LocalQueue>>>,
    pub(crate) consumers: Mutex<HashMap<QueueName, Arc<Consumer>>>,
    /// Clients for the offsets of groups that this process is no member of.
    group_clients: Mutex<HashMap<QueueName, Arc<BaseConsumer<Callbacks>>>>,
    bindings: Mutex<HashMap<String, Bindings>>,
    pub(crate) dead_topics: Mutex<std::collections::HashSet<QueueName>>,
    /// Number of pauses and resumes by this handle.
    pub(crate) pause_changes: AtomicU64,
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
        // Random, so that receipts of other handles are fenced. The upper half is left free for callers that count on
        // from an epoch.
        let epoch = u64::from_be_bytes(*uuid::Uuid::now_v7().as_bytes().last_chunk().unwrap_or(&[0; 8])) >> 1;
        Self {
            connection: Arc::new(connection),
            session: Session::default(),
            ledger,
            runtime,
            epoch,
            queues: RwLock::default(),
            consumers: Mutex::default(),
            group_clients: Mutex::default(),
            bindings: Mutex::default(),
            dead_topics: Mutex::default(),
            pause_changes: AtomicU64::new(0),
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
        for local in self.local_queues() {
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

    pub(crate) fn local_queues(&self) -> Vec<Arc<LocalQueue>> {
        self.queues.read().values().cloned().collect()
    }

    pub(crate) fn find_queue(&self, queue: &QueueName) -> Option<Arc<LocalQueue>> {
        self.queues.read().get(queue).cloned()
    }

    /// Declared queues with a similar name.
    pub(crate) fn similar_names(&self, queue: &QueueName) -> Vec<QueueName> {
        queue.nearest(self.queues.read().keys())
    }

    /// Declared queue of this name.
    pub(crate) fn local_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, BrokerError> {
        self.check_open()?;
        self.find_queue(queue).ok_or_else(|| BrokerError::UnknownQueue {
            queue: queue.clone(),
            known: self.similar_names(queue),
        })
    }

    /// Adds a declared queue, or replaces its spec.
    pub(crate) fn register(&self, spec: &QueueSpec, is_paused: bool) {
        let mut queues = self.queues.write();
        let local = queues.entry(spec.name.clone()).or_insert_with(|| {
            let names = Names::new(&spec.name, &self.connection.options.group_prefix);
            Arc::new(LocalQueue::new(spec.clone(), names))
        });
        let mut state = local.state();
        state.spec = spec.clone();
        state.is_paused = is_paused;
        drop(state);
        self.bindings.lock().clear();
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
            self.ledger_settle(keys.collect(), &Settlement::Returned).await;
        }
    }

    /// Settles messages in the ledger. After an error the rows stay until the session ends, which costs only speed.
    pub(crate) async fn ledger_settle(&self, keys: Vec<MessageKey>, settlement: &Settlement) {
        let Some(session) = self.session.current() else { return };
        if keys.is_empty() {
            return;
        }
        let settlements: Vec<_> = keys.into_iter().map(|key| (key, settlement.clone())).collect();
        if let Err(error) = self.ledger.settle(&session, &settlements).await {
            tracing::debug!(%error, "settling in the ledger");
        }
    }

    /// Bindings of an exchange. While the ledger is unavailable, those read last.
    pub(crate) async fn bindings(&self, exchange: &str) -> Result<Vec<(String, String)>, Failure> {
        let cached = self.bindings.lock().get(exchange).cloned();
        if let Some((read, bindings)) = &cached
            && read.elapsed() < BINDINGS_AGE
        {
            return Ok(bindings.clone());
        }
        match (self.ledger.bindings(exchange).await, cached) {
            (Ok(bindings), _) => {
                self.bindings.lock().insert(exchange.to_owned(), (Instant::now(), bindings.clone()));
                Ok(bindings)
            }
            (Err(_), Some((_, bindings))) => Ok(bindings),
            (Err(error), None) => Err(error.into()),
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
