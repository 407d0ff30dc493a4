//! What cases expect of any call.

use crate::StoreError;
use std::fmt::Debug;

/// The answer to a call that has no reason to fail.
pub(super) fn works<T: Debug>(answer: Result<T, StoreError>, what: &str) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => panic!("{what} must work, the answer was: {error}"),
    }
}
