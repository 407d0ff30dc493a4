//! Errors of the record stores as outcomes: what a caller can do something about.

/// Why a call on a store failed. The gate, which must never be guessed around, has errors of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store or its disk cannot be reached or used right now. Nothing was changed, or everything that was
    /// asked for: ask again later, every call may be repeated.
    #[error("store unavailable: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// What was asked for cannot be, now or later.
    #[error("{problem}")]
    Invalid {
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The store was closed.
    #[error("store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call can succeed later without anyone changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
