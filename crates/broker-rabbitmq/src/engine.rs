//! State that all calls on one broker handle share: connection, declared queues and leased deliveries.

use crate::{
    connection::Connection, error::SessionError, guarantees, leases::LeaseTable, local_queue::LocalQueue,
    management::Management, max_length::DelayedCount, options::Options, redelivery::ExpectedRedeliveries,
    session::Session,
};
use crawlway_broker::{BrokerError, Guarantees, LocalQueues, QueueName, QueueSpec, Receipt};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio::{runtime::Handle, sync::Notify};

/// Shared state of a broker handle. Each operation of the contract is an `impl Engine` in a file of its own.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) options: Options,
    pub(crate) connection: Connection,
    pub(crate) management: Option<Management>,
    /// Runs tasks that outlive the call that started them.
    pub(crate) runtime: Handle,
    pub(crate) queues: LocalQueues<LocalQueue>,
    leases: Mutex<LeaseTable>,
    /// Wakes the lease watcher.
    pub(crate) leases_changed: Notify,
    pub(crate) expected_redeliveries: ExpectedRedeliveries,
    /// Exchanges that are known to exist.
    pub(crate) exchanges: Mutex<HashSet<String>>,
    delayed_counts: Mutex<HashMap<QueueName, Arc<DelayedCount>>>,
    /// Wakes the task that declares missing queues again.
    pub(crate) queue_missing: Notify,
    /// One scan of a queue's dead letters at a time in this process.
    pub(crate) dead_letter_scans: Mutex<HashMap<QueueName, Arc<tokio::sync::Mutex<()>>>>,
}

impl Engine {
    pub(crate) fn new(options: Options, runtime: Handle) -> Self {
        Self {
            connection: Connection::new(options.server()),
            management: Management::new(&options),
            options,
            runtime,
            queues: LocalQueues::default(),
            leases: Mutex::new(LeaseTable::new(Receipt::random_epoch())),
            leases_changed: Notify::new(),
            expected_redeliveries: ExpectedRedeliveries::default(),
            exchanges: Mutex::default(),
            delayed_counts: Mutex::default(),
            queue_missing: Notify::new(),
            dead_letter_scans: Mutex::default(),
        }
    }

    pub(crate) fn leases(&self) -> MutexGuard<'_, LeaseTable> {
        self.leases.lock()
    }

    pub(crate) fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(self.options.max_message)
    }

    pub(crate) fn check_reachable(&self) -> Result<(), SessionError> {
        self.connection.check_connected()
    }

    pub(crate) fn check_open(&self) -> Result<(), SessionError> {
        if self.connection.is_closed() { Err(SessionError::Closed) } else { Ok(()) }
    }

    /// Current session; waits for a reconnect for at most [`Options::connection_timeout`].
    pub(crate) async fn session(&self) -> Result<Arc<Session>, SessionError> {
        self.connection.session(self.options.connection_timeout).await
    }

    /// Declared queue of this name.
    ///
    /// # Errors
    /// If the broker is closed or the queue was not declared.
    pub(crate) fn local_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, BrokerError> {
        self.check_open()?;
        self.queues.get(queue)
    }

    /// Adds a declared queue, or replaces its spec.
    pub(crate) fn register(&self, spec: &QueueSpec) -> Arc<LocalQueue> {
        let local = self.queues.get_or_insert(&spec.name, || LocalQueue::new(spec.clone()));
        local.set_spec(spec.clone());
        local
    }

    pub(crate) fn delayed_count(&self, queue: &QueueName) -> Arc<DelayedCount> {
        self.delayed_counts.lock().entry(queue.clone()).or_default().clone()
    }
}

/// Error for a queue that exists but cannot be used.
pub(crate) fn unusable(queue: &QueueName, reason: &str) -> BrokerError {
    BrokerError::Unavailable { detail: format!("queue `{queue}` cannot be used: {reason}") }
}
