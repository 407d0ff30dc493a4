//! The connection as the rest sees it: there, away for now, or closed for good.

use crate::{error::LinkError, session::Session};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// How things stand.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// Not connected; the supervisor is at it.
    Away,
    Up(Arc<Session>),
    /// By the owner, for good.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Link {
    state: watch::Sender<State>,
    server: String,
    /// Why the connection was last lost or not made, while it is away.
    problem: Mutex<Option<String>>,
}

impl Link {
    pub(crate) fn new(server: String) -> Self {
        Self { state: watch::Sender::new(State::Away), server, problem: Mutex::default() }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), State::Closed)
    }

    /// The session that is up now.
    pub(crate) fn now(&self) -> Option<Arc<Session>> {
        match &*self.state.borrow() {
            State::Up(session) => Some(session.clone()),
            _ => None,
        }
    }

    /// Whether a session is up now.
    pub(crate) fn is_up(&self) -> Result<(), LinkError> {
        match &*self.state.borrow() {
            State::Up(_) => Ok(()),
            State::Away => Err(self.down()),
            State::Closed => Err(LinkError::Closed),
        }
    }

    /// Notes why the connection was lost or not made.
    pub(crate) fn failed(&self, problem: &str) {
        *self.problem.lock() = Some(problem.to_owned());
    }

    fn down(&self) -> LinkError {
        let problem = self.problem.lock().clone();
        LinkError::Down {
            server: self.server.clone(),
            problem: problem.unwrap_or_else(|| "no try has ended yet".to_owned()),
        }
    }

    /// The session that is up, or that comes up within this time.
    pub(crate) async fn session(&self, patience: Duration) -> Result<Arc<Session>, LinkError> {
        let mut watching = self.state.subscribe();
        let settled = watching.wait_for(|state| !matches!(state, State::Away));
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(session) => Ok(session.clone()),
                _ => Err(LinkError::Closed),
            },
            Ok(Err(_)) => Err(LinkError::Closed),
            Err(_) => Err(self.down()),
        }
    }

    /// Says how things stand, unless it was closed. Returns whether it was taken.
    pub(crate) fn set(&self, state: State) -> bool {
        self.state.send_if_modified(|now| {
            if matches!(now, State::Closed) {
                return false;
            }
            *now = state;
            true
        })
    }

    /// Closes it for good and returns the session that was up.
    pub(crate) fn close(&self) -> Option<Arc<Session>> {
        match self.state.send_replace(State::Closed) {
            State::Up(session) => Some(session),
            _ => None,
        }
    }

    /// Returns when it is closed.
    pub(crate) async fn closed(&self) {
        let _ = self.state.subscribe().wait_for(|state| matches!(state, State::Closed)).await;
    }
}
