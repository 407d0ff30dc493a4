//! State that all calls on one broker handle share: connection, ledger and declared queues.

use crate::{connection::Connection, error::Failure, guarantees, local_queue::LocalQueue};
use crawlway_broker::{Guarantees, LocalQueues};
use crawlway_broker_ledger::Shared;
use crawlway_store::Ledger;
use std::{ops::Deref, sync::Arc};
use tokio::runtime::Handle;

/// Shared state of a broker handle. Each operation of the contract is an `impl Engine` in a file of its own, or the same for all brokers on
/// top of the ledger.
#[derive(Debug)]
pub(crate) struct Engine {
    shared: Shared<Engine>,
    pub(crate) connection: Connection,
    /// Queues of other processes that topics are routed to.
    pub(crate) bound: LocalQueues<LocalQueue>,
}

impl Deref for Engine {
    type Target = Shared<Engine>;

    fn deref(&self) -> &Shared<Engine> {
        &self.shared
    }
}

impl Engine {
    pub(crate) fn new(connection: Connection, ledger: Arc<dyn Ledger>, runtime: Handle) -> Self {
        let options = &connection.options;
        let shared = Shared::new(ledger, &options.client_id, options.cleanup_interval, runtime);
        Self { shared, connection, bound: LocalQueues::default() }
    }

    pub(crate) fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(&self.connection.options)
    }

    pub(crate) fn check_reachable(&self) -> Result<(), Failure> {
        self.check_open()?;
        if self.connection.is_down() { Err(self.connection.unreachable()) } else { Ok(()) }
    }
}
