//! State that all calls on one broker handle share: connection, ledger and declared queues.

use crate::{connection::Connection, error::Failure, guarantees, local_queue::LocalQueue};
use crawlway_broker::{BrokerError, Guarantees, LocalQueues, QueueName, Receipt};
use crawlway_broker_ledger::LedgerHandle;
use crawlway_store::Ledger;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::{runtime::Handle, sync::Notify};

/// Shared state of a broker handle. Each operation of the contract is an `impl Engine` in a file of its own.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) connection: Connection,
    pub(crate) ledger: LedgerHandle,
    /// Runs tasks that outlive the call that started them.
    pub(crate) runtime: Handle,
    /// Epoch of the receipts of this handle.
    pub(crate) epoch: u64,
    pub(crate) queues: LocalQueues<LocalQueue>,
    /// Queues of other processes that topics are routed to.
    pub(crate) bound: LocalQueues<LocalQueue>,
    closed: AtomicBool,
    pub(crate) closing: Notify,
}

impl Engine {
    pub(crate) fn new(connection: Connection, ledger: Arc<dyn Ledger>, runtime: Handle) -> Self {
        Self {
            ledger: LedgerHandle::new(ledger, &connection.options.client_id),
            connection,
            runtime,
            epoch: Receipt::random_epoch(),
            queues: LocalQueues::default(),
            bound: LocalQueues::default(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    pub(crate) fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(&self.connection.options)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(crate) fn check_open(&self) -> Result<(), Failure> {
        if self.is_closed() { Err(Failure::Closed) } else { Ok(()) }
    }

    pub(crate) fn check_reachable(&self) -> Result<(), Failure> {
        self.check_open()?;
        if self.connection.is_down() { Err(self.connection.unreachable()) } else { Ok(()) }
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

    /// Declared queue of this name.
    pub(crate) fn local_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue>, BrokerError> {
        self.check_open()?;
        self.queues.get(queue)
    }
}
