//! Errors of calls on the server, sorted by what a caller can do about them.

use crawlway_store::{RateLimiterError, StoreError};

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    /// The server is unreachable, does not answer in time, or refuses the call for now.
    #[error("{0}")]
    Unavailable(String),
    /// A certificate of the server or the client does not fit; a retry succeeds once it is replaced.
    #[error("{0}")]
    Certificate(String),
    /// The settings or the server are unsuitable; a retry fails again.
    #[error("{0}")]
    Invalid(String),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unavailable(detail) | Fault::Certificate(detail) => Self::Unavailable { detail },
            Fault::Invalid(problem) => Self::Invalid { problem },
        }
    }
}

impl From<Fault> for RateLimiterError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable { detail: fault.to_string() }
    }
}
