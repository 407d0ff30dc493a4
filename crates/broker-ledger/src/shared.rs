//! [`Shared`]: what all calls on one broker handle share, whatever its server is.

use crate::{Backend, Deliveries, Entry as _, InFlight, LedgerError, LedgerHandle, LocalQueue, State as _};
use crawlway_broker::{BrokerError, LocalQueues, QueueName, QueueSpec, Receipt, SettleError, Timestamp};
use crawlway_store::Ledger;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, sync::Notify};

/// Part of an engine that is the same in all backends: ledger, declared queues, and whether it is closed.
#[derive(Debug)]
pub struct Shared<B: Backend> {
    /// Ledger with the handle's session.
    pub ledger: LedgerHandle,
    /// Runs tasks that outlive the call that started them.
    pub runtime: Handle,
    /// Declared queues.
    pub queues: LocalQueues<LocalQueue<B>>,
    /// Epoch of the receipts of this handle.
    pub(crate) epoch: u64,
    pub(crate) cleanup_interval: Duration,
    closed: AtomicBool,
    /// Wakes tasks when the handle is closed.
    pub closing: Notify,
}

impl<B: Backend> Shared<B> {
    /// Part of an open engine. `client` is the name of this client for people.
    pub fn new(ledger: Arc<dyn Ledger>, client: &str, cleanup_interval: Duration, runtime: Handle) -> Self {
        Self {
            ledger: LedgerHandle::new(ledger, client),
            runtime,
            queues: LocalQueues::default(),
            epoch: Receipt::random_epoch(),
            cleanup_interval,
            closed: AtomicBool::new(false),
            closing: Notify::new(),
        }
    }

    /// Whether the handle is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Fails if the handle is closed.
    ///
    /// # Errors
    /// [`LedgerError::Closed`].
    pub fn check_open(&self) -> Result<(), LedgerError> {
        if self.is_closed() { Err(LedgerError::Closed) } else { Ok(()) }
    }

    /// Marks the handle as closed; `false` if it was.
    pub fn set_closed(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::Relaxed);
        self.closing.notify_waiters();
        for local in self.queues.all() {
            local.wake();
        }
        first
    }

    /// Declared queue of this name.
    ///
    /// # Errors
    /// If it is not declared, or the handle is closed.
    pub fn local_queue(&self, queue: &QueueName) -> Result<Arc<LocalQueue<B>>, BrokerError> {
        self.check_open()?;
        self.queues.get(queue)
    }

    /// Adds a declared queue, or replaces its spec.
    pub fn register(
        &self,
        spec: &QueueSpec,
        is_paused: bool,
        make: impl FnOnce() -> LocalQueue<B>,
    ) -> Arc<LocalQueue<B>> {
        let local = self.queues.get_or_insert(&spec.name, make);
        local.state().deliveries().spec = spec.clone();
        local.set_paused(is_paused);
        local
    }

    /// Pauses a queue.
    ///
    /// # Errors
    /// If the ledger is unavailable.
    pub async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.set_paused(queue, true).await
    }

    /// Resumes a queue.
    ///
    /// # Errors
    /// If the ledger is unavailable.
    pub async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.set_paused(queue, false).await
    }

    async fn set_paused(&self, queue: &QueueName, paused: bool) -> Result<(), BrokerError> {
        let local = self.local_queue(queue)?;
        self.ledger.set_paused(queue, paused).await?;
        local.set_paused(paused);
        Ok(())
    }

    /// Extends leases, as the contract says.
    pub async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        let now = Timestamp::now();
        let extend = |receipt: &Receipt| {
            self.check_open()?;
            let (local, ()) = self.with_leased(receipt, now, |held, _| held.until = now + lease)?;
            local.keeper.notify_one();
            Ok(())
        };
        receipts.iter().map(extend).collect()
    }

    /// Marks a delivery as the only one that the process runs.
    ///
    /// # Errors
    /// If the ledger is unavailable, or the lease has ended.
    pub async fn mark_solo(&self, receipt: Receipt) -> Result<(), SettleError> {
        self.check_open()?;
        let key = |held: &mut InFlight<B::Entry>, _: &QueueSpec| held.entry.key(&receipt.queue);
        let (local, key) = self.with_leased(&receipt, Timestamp::now(), key)?;
        self.ledger.mark_solo(&local.queue, &key).await
    }

    /// Changes a delivery whose lease is valid, and which the server still keeps from others.
    pub(crate) fn with_leased<T>(
        &self,
        receipt: &Receipt,
        now: Timestamp,
        change: impl FnOnce(&mut InFlight<B::Entry>, &QueueSpec) -> T,
    ) -> Result<(Arc<LocalQueue<B>>, T), SettleError> {
        let fenced = || SettleError::Fenced { queue: receipt.queue.clone() };
        let local = self.queues.find(&receipt.queue).filter(|_| receipt.epoch == self.epoch);
        let local = local.ok_or_else(fenced)?;
        let mut state = local.state();
        let Deliveries { in_flight, spec, .. } = state.deliveries();
        let is_valid =
            |held: &&mut InFlight<B::Entry>| !held.settling && held.until > now && held.entry.is_held(now);
        let held = in_flight.get_mut(&receipt.tag).filter(is_valid).ok_or_else(fenced)?;
        let changed = change(held, spec);
        drop(state);
        Ok((local, changed))
    }
}

impl<B: Backend> LocalQueue<B> {
    pub(crate) fn set_paused(&self, paused: bool) {
        let changed = std::mem::replace(&mut self.state().deliveries().is_paused, paused) != paused;
        if changed {
            self.wake();
        }
    }
}
