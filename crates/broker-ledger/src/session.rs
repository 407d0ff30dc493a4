//! Session in the ledger: opened in the background, kept by heartbeats, and opened anew when it is lost.
//!
//! ```text
//!  (none) ── open ──▶ open ── heartbeat ──▶ open
//!     ▲                 │
//!     └── lost: what is in flight is taken again by the next one
//! ```

use crate::{LedgerError, LedgerHandle};
use crawlway_store::ledger::{MessageKey, SessionId};
use parking_lot::{Mutex, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Interval of looking for changes by other processes, and of attempts to open a session.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Time that a call waits for the first session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Session of a broker handle.
#[derive(Debug, Default)]
pub(crate) struct Session {
    current: RwLock<Option<SessionId>>,
    opened: Notify,
    last_heartbeat: Mutex<Option<Instant>>,
}

impl Session {
    pub(crate) fn current(&self) -> Option<SessionId> {
        self.current.read().clone()
    }

    /// Forgets a lost session, so that another one is opened.
    pub(crate) fn lost(&self, session: &SessionId) {
        let mut current = self.current.write();
        if current.as_ref() == Some(session) {
            *current = None;
        }
    }
}

impl LedgerHandle {
    /// Interval of [`keep_session`](Self::keep_session) and of looking for changes by other processes.
    pub(crate) fn watch_interval(&self) -> Duration {
        WATCH_INTERVAL.min(self.heartbeat())
    }

    fn heartbeat(&self) -> Duration {
        self.ledger.policy().session_lease / 3
    }

    /// The session; waits for it a while.
    pub(crate) async fn session(&self) -> Result<SessionId, LedgerError> {
        let wait = async {
            loop {
                let opened = self.session.opened.notified();
                tokio::pin!(opened);
                opened.as_mut().enable();
                if let Some(session) = self.session.current() {
                    return session;
                }
                opened.await;
            }
        };
        let missing = |_| LedgerError::NoSession("it has not answered yet");
        tokio::time::timeout(OPEN_TIMEOUT, wait).await.map_err(missing)
    }

    /// Opens the session, or renews it and looks for lost workers if that is due. A new session takes again what is in flight, `held`.
    pub(crate) async fn keep_session(&self, held: impl Fn() -> Vec<MessageKey>) {
        if let Some(session) = self.session.current() {
            let is_due = |last: &Instant| last.elapsed() >= self.heartbeat();
            if !self.session.last_heartbeat.lock().as_ref().is_none_or(is_due) {
                return;
            }
            *self.session.last_heartbeat.lock() = Some(Instant::now());
            if let Ok(false) = self.ledger.heartbeat(&session).await {
                tracing::warn!("the session in the ledger was lost; another one is opened");
                self.session.lost(&session);
            } else {
                for lost in self.ledger.reap_sessions().await.unwrap_or_default() {
                    let suspects = lost.suspects.len();
                    tracing::warn!(worker = lost.worker, suspects, "a worker was lost");
                }
            }
        }
        if self.session.current().is_none() {
            self.open_session(held()).await;
        }
    }

    async fn open_session(&self, held: Vec<MessageKey>) {
        let session = SessionId(uuid::Uuid::now_v7().to_string());
        if let Err(error) = self.ledger.open_session(&session, &self.worker).await {
            tracing::warn!(%error, "the ledger cannot be used; nothing is received");
            return;
        }
        *self.session.last_heartbeat.lock() = Some(Instant::now());
        if !held.is_empty() {
            let _ = self.ledger.take(&session, &held).await;
        }
        *self.session.current.write() = Some(session);
        self.session.opened.notify_waiters();
    }

    /// Closes the session: what it has in flight is returned, uncounted.
    pub async fn close_session(&self) {
        if let Some(session) = self.session.current()
            && let Err(error) = self.ledger.close_session(&session).await
        {
            tracing::warn!(%error, "closing the session in the ledger");
        }
    }
}
