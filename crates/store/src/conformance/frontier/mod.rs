//! The conformance suite of the frontier: the one case list that every backend passes.
//!
//! A backend supplies a small [`Harness`] and writes
//! [`frontier_conformance_suite!`](crate::frontier_conformance_suite) once in a test file; that expands to one
//! test per case, so that no backend can forget one.
//!
//! Time is the harness's to move, and stands still otherwise, so that every time is exact.

mod adding;
mod again;
mod batches;
mod crawls;
mod dead;
mod leases;
mod limit;
mod list;
mod load;
mod schedule;
mod settling;
mod shared;
mod suspects;
mod taking;
mod trial;
mod witness;

pub use list::{CASES, Case, run};

use crate::{Frontier, FrontierPolicy, Timestamp};
use std::{sync::Arc, time::Duration};

/// What a backend supplies: how to open it, and its clock.
///
/// Each case makes its own harness and calls [`fresh`](Harness::fresh) once, first.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens an empty frontier. On a shared server it has a name space of its own.
    async fn fresh(&mut self, policy: FrontierPolicy) -> Arc<dyn Frontier>;

    /// A further handle on the same state, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<dyn Frontier>> {
        None
    }

    /// Loses all handles, of which the suite has none left, and opens the same state again, with the same
    /// policy. What was in flight stays so until its lease ends or it is taken back.
    async fn reopen(&mut self) -> Arc<dyn Frontier>;

    /// The time that the frontier goes by.
    fn now(&self) -> Timestamp;

    /// Lets this much time pass.
    async fn pass(&mut self, time: Duration);
}
