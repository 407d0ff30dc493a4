//! Errors of connecting and of sessions, and their translation to the errors of the contract.

use lapin::ErrorKind;
use std::time::Duration;

/// Reason why no connection to the server was made. Its text names the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No AMQP server answers at the address.
    #[error("cannot reach RabbitMQ at {server}: {reason}; start it, or correct host and port")]
    Unreachable {
        /// URL of the server, without the password.
        server: String,
        /// Error of the attempt.
        reason: String,
    },
    /// A certificate of the server or the client does not fit.
    #[error("no TLS connection to RabbitMQ at {server}: {reason}")]
    Certificate {
        /// URL of the server, without the password.
        server: String,
        /// Error of the handshake, and what to do.
        reason: String,
    },
    /// The server refuses the login.
    #[error("RabbitMQ at {server} refuses the login: {reason}; check user, password and virtual host")]
    LoginRefused {
        /// URL of the server, without the password.
        server: String,
        /// Answer of the server.
        reason: String,
    },
}

/// Error on a channel or connection.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("{0}")]
    Amqp(#[from] lapin::Error),
    #[error("not connected to RabbitMQ at {server} ({reason}); reconnecting in the background")]
    Disconnected { server: String, reason: String },
    #[error("RabbitMQ did not answer `{method}` within {after:?}")]
    Timeout { method: &'static str, after: Duration },
    #[error("broker is closed")]
    Closed,
}

/// Reply codes of the server.
pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
pub(crate) const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;

impl SessionError {
    pub(crate) fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(|(code, _)| code == NOT_FOUND)
    }

    /// Reply code and text, if the server refused the request.
    pub(crate) fn refusal(&self) -> Option<(u16, String)> {
        let SessionError::Amqp(error) = self else { return None };
        refusal(error)
    }
}

fn refusal(error: &lapin::Error) -> Option<(u16, String)> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some((error.get_id(), error.get_message().to_string())),
        _ => None,
    }
}

/// Whether the server refuses the login, so that another attempt is useless.
pub(crate) fn is_login_refused(error: &lapin::Error) -> bool {
    refusal(error).is_some_and(|(code, _)| [ACCESS_REFUSED, NOT_ALLOWED].contains(&code))
}

crawlway_broker::convert_errors!(SessionError, SessionError::Closed);
