//! The conformance suite of the seen URLs: the one case list that every backend passes.
//!
//! A backend supplies a small [`Harness`] and writes [`seen_conformance_suite!`](crate::seen_conformance_suite)
//! once in a test file; that expands to one test per case, so that no backend can forget one.
//!
//! Time is the harness's to move. Lower bounds ("not before") are strict; upper bounds allow for
//! [`Harness::slack`], which a backend whose clock runs by itself needs.

mod batches;
mod claims;
mod list;
mod load;
mod marks;
mod shared;
mod trial;

pub use list::{CASES, Case, run};

use crate::{SeenUrls, Timestamp};
use std::{sync::Arc, time::Duration};

/// What a backend supplies: how to open it, and its clock.
///
/// Each case makes its own harness and calls [`fresh`](Harness::fresh) once, first. Cases let hours pass, so a
/// backend that goes by a server's clock makes its records that much older instead.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens an empty store. On a shared server it has a name space of its own.
    async fn fresh(&mut self) -> Arc<dyn SeenUrls>;

    /// A further handle on the same state, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<dyn SeenUrls>> {
        None
    }

    /// Loses all handles, of which the suite has none left, and opens the same state again.
    async fn reopen(&mut self) -> Arc<dyn SeenUrls>;

    /// The time that the store goes by.
    fn now(&self) -> Timestamp;

    /// Lets this much time pass.
    async fn pass(&mut self, time: Duration);

    /// By how much an upper bound may be missed because the clock goes on by itself; 5 s at most.
    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether records whose time is over vanish by themselves, so that there is nothing to sweep.
    fn vanishes(&self) -> bool {
        false
    }
}
