//! The conformance suite of the page index as a store: the one case list that every backend passes.
//!
//! A backend supplies a small [`Harness`] and writes [`pages_conformance_suite!`](crate::pages_conformance_suite)
//! once in a test file; that expands to one test per case, so that no backend can forget one.
//!
//! What is found by which query, and in which order, is for the suite [`finding`](super::finding).

mod batches;
mod list;
mod precedence;
mod reading;
mod shared;
mod trial;
mod writing;

pub use list::{CASES, Case, run};

use crate::PageIndex;
use std::sync::Arc;

/// What a backend supplies: how to open it.
///
/// Each case makes its own harness and calls [`fresh`](Harness::fresh) once, first.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens an empty index. On a shared server it has a name space of its own.
    async fn fresh(&mut self) -> Arc<dyn PageIndex>;

    /// A further handle on the same pages, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<dyn PageIndex>> {
        None
    }

    /// Loses all handles, of which the suite has none left, and opens the same pages again. A handle may be lost without
    /// having been closed.
    async fn reopen(&mut self) -> Arc<dyn PageIndex>;
}
