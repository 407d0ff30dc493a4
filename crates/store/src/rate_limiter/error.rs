//! Errors of the rate limiter, by what the caller can do about them.

use super::Group;

/// Error of the rate limiter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateLimiterError {
    /// The permit was finished, or its lease was lost.
    #[error("fenced: this permit of group `{group}` was finished or its lease was lost")]
    Fenced {
        /// The group of the permit.
        group: Group,
    },
    /// The limits of the call are invalid.
    #[error("limits of group `{group}`: {problem}")]
    InvalidLimits {
        /// The group.
        group: Group,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The policy is invalid.
    #[error("policy of the rate limiter: {problem}")]
    InvalidPolicy {
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The state is unavailable for now. Send no request without it; retry later.
    #[error("rate limiter unavailable: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
}
