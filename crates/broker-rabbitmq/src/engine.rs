//! State that all calls on one broker handle share: connection, declared queues and leased deliveries.

use crate::{
    connection::Connection, error::SessionError, leases::LeaseTable, local_queue::LocalQueue,
    management::Management, max_length::DelayedCount, options::Options, redelivery::ExpectedRedeliveries,
    session::Session,
};
use crawlway_broker::{BrokerError, QueueName, QueueSpec};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
    queues: RwLock<BTreeMap<QueueName, Arc<LocalQueue>>>,
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
        // Random, so that receipts of other handles are fenced. The upper half is left free for callers that count on
        // from an epoch.
        let epoch = u64::from_be_bytes(*uuid::Uuid::now_v7().as_bytes().last_chunk().unwrap_or(&[0; 8])) >> 1;
        Self {
            connection: Connection::new(options.server()),
            management: Management::new(&options),
            options,
            runtime,
            queues: RwLock::default(),
            leases: Mutex::new(LeaseTable::new(epoch)),
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

    pub(crate) fn check_open(&self) -> Result<(), SessionError> {
        if self.connection.is_closed() { Err(SessionError::Closed) } else { Ok(()) }
    }

    /// Current session; waits for a reconnect for at most [`Options::connection_timeout`].
    pub(crate) async fn session(&self) -> Result<Arc<Session>, SessionError> {
        self.connection.session(self.options.connection_timeout).await
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
    ///
    /// # Errors
    /// If the broker is closed or the queue was not declared.
    pub(crate) fn local_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, BrokerError> {
        self.check_open()?;
        self.find_queue(queue).ok_or_else(|| BrokerError::UnknownQueue {
            queue: queue.clone(),
            known: self.similar_names(queue),
        })
    }

    /// Adds a declared queue, or replaces its spec.
    pub(crate) fn register(&self, spec: &QueueSpec) -> Arc<LocalQueue> {
        let mut queues = self.queues.write();
        if let Some(local) = queues.get(&spec.name) {
            local.set_spec(spec.clone());
            return local.clone();
        }
        let local = Arc::new(LocalQueue::new(spec.clone()));
        queues.insert(spec.name.clone(), local.clone());
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
