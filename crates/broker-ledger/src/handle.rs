//! [`LedgerHandle`]: the ledger of a broker handle; deliveries in flight and pauses.

use crate::session::Session;
use crawlway_broker::{QueueName, SettleError};
use crawlway_store::{
    Ledger, StoreError,
    ledger::{MessageKey, Settlement, TakeOutcome},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Maximum number of old rows that are removed at once.
const PURGE_ROWS: usize = 1000;
/// Time in which done messages are gathered, so that they are removed in one call.
const REMOVE_DELAY: Duration = Duration::from_millis(10);

/// Error of a call to the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The ledger is unavailable, or refuses the call.
    #[error("ledger: {0}")]
    Store(#[from] StoreError),
    /// No session could be opened so far, or it was lost.
    #[error("the ledger of the queues is unavailable: {0}")]
    NoSession(&'static str),
    /// The broker handle is closed.
    #[error("broker is closed")]
    Closed,
}

crawlway_broker::convert_errors!(LedgerError, LedgerError::Closed);

/// Bindings of an exchange: queue and pattern, and when they were read.
pub(crate) type Bindings = (Instant, Vec<(String, String)>);

/// Ledger of a broker handle, with the handle's session.
#[derive(Debug)]
pub struct LedgerHandle {
    pub(crate) ledger: Arc<dyn Ledger>,
    /// Name of the process for people.
    pub(crate) worker: String,
    pub(crate) session: Session,
    pub(crate) bindings: Mutex<HashMap<String, Bindings>>,
    /// Number of pauses and resumes by this handle.
    pause_changes: AtomicU64,
    /// Messages that are done, and not yet removed.
    done: Mutex<Vec<MessageKey>>,
    done_added: Notify,
}

impl LedgerHandle {
    /// Handle without a session; [`keep_session`](Self::keep_session) opens one. `client` is the name of this client for people.
    pub(crate) fn new(ledger: Arc<dyn Ledger>, client: &str) -> Self {
        Self {
            ledger,
            worker: format!("{client}, process {}", std::process::id()),
            session: Session::default(),
            bindings: Mutex::default(),
            pause_changes: AtomicU64::new(0),
            done: Mutex::default(),
            done_added: Notify::new(),
        }
    }

    /// Records messages as in flight, before they are delivered.
    pub(crate) async fn take(&self, keys: &[MessageKey]) -> Result<Vec<TakeOutcome>, LedgerError> {
        let session = self.session().await?;
        let outcomes = self.ledger.take(&session, keys).await?;
        if outcomes.contains(&TakeOutcome::Fenced) {
            self.session.lost(&session);
            return Err(LedgerError::NoSession("its session was lost, and another one is opened"));
        }
        Ok(outcomes)
    }

    /// Settles messages. After an error the rows stay until the session ends, which costs only speed.
    pub async fn settle(&self, keys: Vec<MessageKey>, settlement: &Settlement) {
        if let Err(error) = self.try_settle(keys, settlement).await {
            tracing::debug!(%error, "settling in the ledger");
        }
    }

    /// Has done messages removed soon, together with others. To be called when they cannot be delivered again: a row that is left
    /// behind by a crash changes nothing.
    pub(crate) fn remove_done(&self, keys: Vec<MessageKey>) {
        self.done.lock().extend(keys);
        self.done_added.notify_one();
    }

    /// Waits for done messages, and removes them.
    pub(crate) async fn done_removed(&self) {
        self.done_added.notified().await;
        tokio::time::sleep(REMOVE_DELAY).await;
        let keys = std::mem::take(&mut *self.done.lock());
        self.settle(keys, &Settlement::Done).await;
    }

    /// Settles messages, if there is a session.
    ///
    /// # Errors
    /// If the ledger is unavailable.
    pub async fn try_settle(
        &self,
        keys: Vec<MessageKey>,
        settlement: &Settlement,
    ) -> Result<(), LedgerError> {
        let Some(session) = self.session.current() else { return Ok(()) };
        if keys.is_empty() {
            return Ok(());
        }
        let settlements: Vec<_> = keys.into_iter().map(|key| (key, settlement.clone())).collect();
        self.ledger.settle(&session, &settlements).await?;
        Ok(())
    }

    /// Marks a message as the only one that the process runs.
    pub(crate) async fn mark_solo(&self, queue: &QueueName, key: &MessageKey) -> Result<(), SettleError> {
        let session = self.session().await?;
        match self.ledger.mark_solo(&session, key).await.map_err(LedgerError::from)? {
            true => Ok(()),
            false => Err(SettleError::Fenced { queue: queue.clone() }),
        }
    }

    /// Pauses or resumes a queue.
    pub(crate) async fn set_paused(&self, queue: &QueueName, paused: bool) -> Result<(), LedgerError> {
        match paused {
            true => self.ledger.pause(queue.as_str()).await?,
            false => self.ledger.resume(queue.as_str()).await?,
        }
        self.pause_changes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Names of the paused queues.
    ///
    /// # Errors
    /// If the ledger is unavailable.
    pub async fn paused(&self) -> Result<BTreeSet<String>, LedgerError> {
        Ok(self.ledger.paused().await?.into_iter().collect())
    }

    /// Names of the paused queues; `None` if the ledger is unavailable, or this handle paused or resumed one meanwhile, so that the
    /// answer may be older than that.
    pub(crate) async fn watch_pauses(&self) -> Option<BTreeSet<String>> {
        let changes = self.pause_changes.load(Ordering::Relaxed);
        let paused = self.paused().await.ok()?;
        (self.pause_changes.load(Ordering::Relaxed) == changes).then_some(paused)
    }

    /// Removes rows that are older than the retention of the ledger.
    pub(crate) async fn purge_expired(&self) {
        if let Err(error) = self.ledger.purge_expired(PURGE_ROWS).await {
            tracing::debug!(%error, "removing old rows of the ledger");
        }
    }
}
