//! The conformance suite of the queue contract: one list of cases that every backend passes.
//!
//! A backend has this crate among its dev-dependencies, implements the small [`Harness`] and writes
//! [`conformance_suite!`] once in a test file; that expands to one test per case, so that no backend can leave one
//! out. What [`Broker::guarantees`] calls native is tested strictly, what it calls emulated within the stated bounds,
//! and what it calls refused for its refusal.
//!
//! No case depends on the luck of a wall clock: a lower bound ("not before its time") is read from [`Harness::now`]
//! and is strict, an upper bound is generous, and every wait is bounded polling.

mod admin;
mod attempts;
mod content;
mod dead;
mod delay;
mod delivery;
mod document;
mod durability;
mod expect;
mod groups;
mod leases;
mod limit;
mod list;
mod load;
mod routing;
mod trial;

#[doc(hidden)]
pub use crawlway_conformance::suite;
pub use document::is_documented;
pub use list::{CASES, Case, run};

/// What every case needs.
mod prelude {
    pub(crate) use crate::{Harness, expect::*, trial::*};
    pub(crate) use crawlway_broker::*;
    pub(crate) use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
        time::{Duration, Instant},
    };
}

use prelude::{Arc, Broker, Duration, Timestamp};

/// What a backend supplies: how to open it, how to break it, and its clock.
///
/// Each case makes its own harness and calls [`fresh`](Harness::fresh) once, first. When `restart` or `crash` is
/// called, the suite has no call under way on an older handle and makes none afterwards, except to see that a closed
/// one says so.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens a broker without queues. On a shared server, queue names are unique to the case, so what other cases
    /// leave behind does not matter.
    async fn fresh(&mut self) -> Arc<dyn Broker>;

    /// Closes the broker in good order and opens it again on the same data. Nothing that was durable may be lost.
    async fn restart(&mut self) -> Arc<dyn Broker>;

    /// Loses the process or its connection without a goodbye, with what is unsettled, and opens a new handle on the
    /// same data.
    async fn crash(&mut self) -> Arc<dyn Broker>;

    /// A further handle on the same data, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<dyn Broker>> {
        None
    }

    /// The time that the broker goes by.
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Lets this much time pass. A harness with a clock of its own moves it at once and wakes what waits for it.
    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// How long, in real time, one poll of a queue waits for a message. A backend without a network in between can
    /// make the suite faster by making this shorter.
    fn poll_wait(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// How long, in real time, something that must happen may take before its case fails.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }
}
