//! The conformance suite of the inventory records: the one case list that every backend passes.
//!
//! A backend supplies a small [`Harness`] and writes
//! [`inventory_conformance_suite!`](crate::inventory_conformance_suite) once in a test file; that expands to one test
//! per case, so that no backend can forget one.
//!
//! All times are the caller's, so the suite needs no clock.

mod beginning;
mod content;
mod ending;
pub mod killed;
mod list;
mod listing;
mod load;
mod order;
mod queueing;
mod schedule;
mod trial;

pub use list::{CASES, Case, run};

use crate::UrlRecords;
use std::sync::Arc;

/// What a backend supplies: how to open it.
///
/// Each case makes its own harness and calls [`fresh`](Harness::fresh) once, first.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens an empty store. On a shared server it has a name space of its own.
    async fn fresh(&mut self) -> Arc<dyn UrlRecords>;

    /// A further handle on the same state, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<dyn UrlRecords>> {
        None
    }

    /// Loses all handles, of which the suite has none left, and opens the same state again.
    async fn reopen(&mut self) -> Arc<dyn UrlRecords>;
}
