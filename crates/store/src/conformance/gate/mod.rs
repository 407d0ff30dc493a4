//! The conformance suite of the gate: the one case list that every backend passes.
//!
//! A backend supplies a small [`Harness`] and writes
//! [`gate_conformance_suite!`](crate::gate_conformance_suite) once in a test file; that expands to one test per
//! case, so that no backend can forget one.
//!
//! Time is the harness's to move. Lower bounds ("not before") are strict; upper bounds allow for
//! [`Harness::slack`], which a backend whose clock runs by itself needs.

mod back_off;
mod breaker;
mod clock;
mod flight;
mod groups;
mod leases;
mod list;
mod load;
mod memory;
mod schedule;
mod slots;
mod trial;
mod witness;

pub use list::{CASES, Case, run};

use crate::{Gate, Policy, Timestamp};
use std::{sync::Arc, time::Duration};

/// What a backend supplies: how to open it, how its users die, and its clock.
///
/// Each case makes its own harness and calls [`fresh`](Harness::fresh) once, first. Cases let minutes pass, so a
/// backend that goes by a server's clock adds to it, in tests, what the harness was told to let pass.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens a gate. On a shared server, group names are unique to the case, so what other cases leave behind does
    /// not matter.
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate>;

    /// A further handle on the same state, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        None
    }

    /// Loses the process that has this handle, with all it holds, without a goodbye.
    async fn die(&mut self, holder: Arc<dyn Gate>) {
        drop(holder);
    }

    /// The time that the gate goes by.
    fn now(&self) -> Timestamp;

    /// Lets this much time pass.
    async fn pass(&mut self, time: Duration);

    /// Sets the clock back, and says whether it can.
    async fn set_back(&mut self, _by: Duration) -> bool {
        false
    }

    /// By how much an upper bound may be missed because the clock goes on by itself.
    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    /// How many groups the gate is asked to keep in mind at once. A backend with a network in between asks for
    /// fewer.
    fn many_groups(&self) -> usize {
        1_000_000
    }
}
