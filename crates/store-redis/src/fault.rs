//! What a server can do instead of answering, and what that means for the caller.

use crawlway_store::{GateError, StoreError};

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Fault {
    /// The server is away, does not answer in time, or does not do it now.
    #[error("{0}")]
    Away(String),
    /// It cannot be, now or later.
    #[error("{0}")]
    Never(String),
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Away(detail) => Self::Unavailable { detail },
            Fault::Never(problem) => Self::Invalid { problem },
        }
    }
}

impl From<Fault> for GateError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable { detail: fault.to_string() }
    }
}
