//! Why a server could not be reached, and what its answers mean for a caller.

use crawlway_broker::{BrokerError, PublishError, SettleError};
use lapin::{ErrorKind, protocol::AMQPErrorKind};

/// Why no connection to the server was made. Says what was tried and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody answers there, or not in AMQP.
    #[error("cannot reach RabbitMQ at {server}: {problem}; start it, or correct host and port")]
    Unreachable {
        /// The server.
        server: String,
        /// What happened.
        problem: String,
    },
    /// It answers, and does not let us in.
    #[error("RabbitMQ at {server} does not let us in: {problem}; check user, password and virtual host")]
    NotAllowed {
        /// The server.
        server: String,
        /// What it said.
        problem: String,
    },
}

/// What went wrong on a channel or a connection.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{0}")]
    Amqp(#[from] lapin::Error),
    #[error(
        "RabbitMQ at {server} is not connected ({problem}); the connection is made again as soon as it answers"
    )]
    Down { server: String, problem: String },
    #[error("RabbitMQ did not answer `{what}` within {after:?}")]
    Silent { what: &'static str, after: std::time::Duration },
    #[error("broker is closed")]
    Closed,
}

/// The server knows no queue of this name.
pub(crate) const NOT_FOUND: u16 = 404;

impl LinkError {
    pub(crate) fn is_not_found(&self) -> bool {
        self.refusal().is_some_and(|(number, _)| number == NOT_FOUND)
    }

    /// The number and the text with which the server refused, if it did.
    pub(crate) fn refusal(&self) -> Option<(u16, String)> {
        let LinkError::Amqp(error) = self else { return None };
        refusal(error)
    }
}

/// The number and the text with which the server refused, if it did.
pub(crate) fn refusal(error: &lapin::Error) -> Option<(u16, String)> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some((error.get_id(), error.get_message().to_string())),
        _ => None,
    }
}

/// Whether trying again cannot help, since the server does not want us.
pub(crate) fn not_allowed(error: &lapin::Error) -> bool {
    const ACCESS_REFUSED: u16 = 403;
    const NOT_ALLOWED: u16 = 530;
    match error.kind() {
        ErrorKind::ProtocolError(error) => {
            matches!(error.kind(), AMQPErrorKind::Hard(_) | AMQPErrorKind::Soft(_))
                && [ACCESS_REFUSED, NOT_ALLOWED].contains(&error.get_id())
        }
        _ => false,
    }
}

impl From<LinkError> for BrokerError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => BrokerError::Closed,
            other => BrokerError::Unavailable { detail: other.to_string() },
        }
    }
}

impl From<LinkError> for PublishError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => PublishError::Closed,
            other => PublishError::Unavailable { detail: other.to_string() },
        }
    }
}

impl From<LinkError> for SettleError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => SettleError::Closed,
            other => SettleError::Unavailable { detail: other.to_string() },
        }
    }
}
