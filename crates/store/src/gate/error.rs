//! Errors of the gate as outcomes: what a caller can do something about.

use super::Group;

/// Why a call on the gate failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The permit was finished or its lease lost before: the place is, or was, somebody else's.
    #[error("fenced: this permit of group `{group}` was finished or its lease was lost")]
    Fenced {
        /// The group it was for.
        group: Group,
    },
    /// The limits ask for what cannot be.
    #[error("limits of group `{group}`: {problem}")]
    InvalidLimits {
        /// The group.
        group: Group,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The gate was to be opened with a policy that cannot be held.
    #[error("policy of the gate: {problem}")]
    InvalidPolicy {
        /// What is wrong and what was expected.
        problem: String,
    },
    /// The gate's state cannot be reached right now. Nobody may go without it: ask again later.
    #[error("gate unavailable: {detail}")]
    Unavailable {
        /// What failed and what to do.
        detail: String,
    },
}
