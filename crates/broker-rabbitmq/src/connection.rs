//! Connection to the server: a supervisor keeps it up and reconnects with back-off.
//!
//! ```text
//!                    ┌─────────── lost: fence its deliveries, back off ───────────┐
//!                    ▼                                                            │
//!  connect_later ─▶ Connecting ──── connected: declare all queues again ────▶ Connected
//!                    │                                                            │
//!                    └───────── close ─────────▶ Closed ◀───────── close ─────────┘
//! ```
//!
//! Calls wait in `Connecting` for [`Options::connection_timeout`](crate::Options::connection_timeout) and then fail as unavailable. `Closed`
//! is final.

use crate::{engine::Engine, error::SessionError, session::Session};
use crawlway_clock::{Backoff, jittered};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// Back-off between attempts to connect, and between attempts to declare a queue.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));
/// Share of the delay by which it is varied, so that not all processes reconnect together.
const JITTER: f64 = 0.5;
/// Lifetime after which a connection counts as stable and resets the back-off.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// Time that `close` has to return prefetched messages. The server requeues the rest as those of a lost worker.
const RETURN_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
enum ConnectionState {
    Connecting,
    Connected(Arc<Session>),
    Closed,
}

/// State of the connection, for callers that need a session.
#[derive(Debug)]
pub(crate) struct Connection {
    state: watch::Sender<ConnectionState>,
    server: String,
    /// Reason of the last loss or failed attempt.
    last_error: Mutex<Option<String>>,
}

impl Connection {
    pub(crate) fn new(server: String) -> Self {
        let state = watch::Sender::new(ConnectionState::Connecting);
        Self { state, server, last_error: Mutex::default() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), ConnectionState::Closed)
    }

    /// Session that is up now.
    pub(crate) fn current(&self) -> Option<Arc<Session>> {
        match &*self.state.borrow() {
            ConnectionState::Connected(session) => Some(session.clone()),
            _ => None,
        }
    }

    /// Fails unless a session is up now.
    pub(crate) fn check_connected(&self) -> Result<(), SessionError> {
        match &*self.state.borrow() {
            ConnectionState::Connected(_) => Ok(()),
            ConnectionState::Connecting => Err(self.disconnected()),
            ConnectionState::Closed => Err(SessionError::Closed),
        }
    }

    /// Session that is up, or that comes up within the timeout.
    pub(crate) async fn session(&self, timeout: Duration) -> Result<Arc<Session>, SessionError> {
        let mut state = self.state.subscribe();
        let decided = state.wait_for(|state| !matches!(state, ConnectionState::Connecting));
        match tokio::time::timeout(timeout, decided).await {
            Ok(Ok(state)) => match &*state {
                ConnectionState::Connected(session) => Ok(session.clone()),
                _ => Err(SessionError::Closed),
            },
            Ok(Err(_)) => Err(SessionError::Closed),
            Err(_) => Err(self.disconnected()),
        }
    }

    /// Returns once the connection is `Closed`.
    pub(crate) async fn closed(&self) {
        let _ = self.state.subscribe().wait_for(|state| matches!(state, ConnectionState::Closed)).await;
    }

    /// `Connecting` → `Connected`; `false` if it was closed meanwhile.
    fn set_connected(&self, session: Arc<Session>) -> bool {
        self.leave_unless_closed(ConnectionState::Connected(session))
    }

    /// `Connected` → `Connecting`.
    fn set_lost(&self, reason: &str) {
        self.record_error(reason);
        self.leave_unless_closed(ConnectionState::Connecting);
    }

    /// Any state → `Closed`; returns the session that was up.
    pub(crate) fn close(&self) -> Option<Arc<Session>> {
        match self.state.send_replace(ConnectionState::Closed) {
            ConnectionState::Connected(session) => Some(session),
            _ => None,
        }
    }

    fn leave_unless_closed(&self, next: ConnectionState) -> bool {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, ConnectionState::Closed);
            if open {
                *state = next;
            }
            open
        })
    }

    fn record_error(&self, error: &str) {
        *self.last_error.lock() = Some(error.to_owned());
    }

    fn disconnected(&self) -> SessionError {
        let reason = self.last_error.lock().clone();
        SessionError::Disconnected {
            server: self.server.clone(),
            reason: reason.unwrap_or_else(|| "the first attempt is still running".to_owned()),
        }
    }
}

impl Engine {
    /// Supervisor task: drives the connection through its states until it is closed. `first` is a session that is
    /// already open.
    pub(crate) async fn supervise(self: Arc<Self>, mut first: Option<Session>) {
        let mut number = 1;
        let mut failures = 0;
        loop {
            let session = match first.take() {
                Some(session) => session,
                None => {
                    number += 1;
                    match self.connect(number, &mut failures).await {
                        Some(session) => session,
                        None => return,
                    }
                }
            };
            let session = Arc::new(session);
            if !self.enter_connected(&session).await {
                return session.close().await;
            }
            let since = Instant::now();
            let reason = tokio::select! {
                reason = session.lost() => reason,
                () = self.connection.closed() => return,
                never = self.keep_queues_declared(&session) => match never {},
            };
            self.leave_connected(&session, &reason);
            if since.elapsed() > STABLE_AFTER {
                failures = 0;
            } else if !self.back_off(&mut failures).await {
                return;
            }
        }
    }

    /// Opens a session, with any number of attempts; none once the broker is closed.
    async fn connect(&self, number: u64, failures: &mut u32) -> Option<Session> {
        loop {
            let attempt = tokio::select! {
                attempt = Session::open(&self.options, number) => attempt,
                () = self.connection.closed() => return None,
            };
            match attempt {
                Ok(session) => {
                    tracing::info!(server = self.options.server(), "connected to RabbitMQ");
                    return Some(session);
                }
                Err((error, _)) => {
                    self.connection.record_error(&error.to_string());
                    tracing::warn!(%error, "connecting failed; retrying with back-off");
                }
            }
            if !self.back_off(failures).await {
                return None;
            }
        }
    }

    /// Sleeps before the next attempt; `false` if the broker is closed meanwhile.
    async fn back_off(&self, failures: &mut u32) -> bool {
        *failures = failures.saturating_add(1);
        let chance = f64::from(uuid::Uuid::now_v7().as_bytes()[15]) / 256.0;
        tokio::select! {
            () = tokio::time::sleep(jittered(BACKOFF.delay(*failures), JITTER, chance)) => true,
            () = self.connection.closed() => false,
        }
    }

    /// Declares all queues, since the server may be another one or have lost its data, and lets callers use the session.
    async fn enter_connected(&self, session: &Arc<Session>) -> bool {
        self.exchanges.lock().clear();
        for local in self.queues.all() {
            self.redeclare(session, &local).await;
        }
        self.queue_missing.notify_one();
        self.connection.set_connected(session.clone())
    }

    /// Fences everything that was delivered in the lost session.
    fn leave_connected(self: &Arc<Self>, session: &Arc<Session>, reason: &str) {
        tracing::warn!(server = self.options.server(), reason, "connection to RabbitMQ lost; reconnecting");
        self.connection.set_lost(reason);
        self.fence(|incoming| incoming.ack_channel.session == session.number);
        let session = session.clone();
        self.runtime.spawn(async move { session.close().await });
    }

    /// Graceful shutdown: returns prefetched messages to their queues and closes the connection.
    pub(crate) async fn close(self: &Arc<Self>) {
        if self.connection.current().is_some_and(|session| session.is_connected()) {
            let queues = self.queues.all();
            let returned = futures::future::join_all(queues.iter().map(|local| async move {
                if local.needs_draining() {
                    let buffered = local.suspend().await;
                    self.return_prefetched(local, buffered).await;
                }
            }));
            let _ = tokio::time::timeout(RETURN_TIMEOUT, returned).await;
        }
        if let Some(session) = self.connection.close() {
            session.close().await;
        }
    }
}
