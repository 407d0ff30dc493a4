//! Errors of the stores, by what the caller can do about them.

/// Error of a store. The rate limiter has its own, [`RateLimiterError`](crate::RateLimiterError).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store or its disk is unavailable for now. The call took effect as a whole or not at all. Every call is
    /// idempotent: repeat it later.
    #[error("store unavailable: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
    /// The call is invalid and fails again if it is repeated.
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
    /// Whether the same call can succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
