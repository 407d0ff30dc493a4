//! Conformance suite of the queue contract: the test cases that every backend passes.
//!
//! A backend implements [`Harness`] and calls [`conformance_suite!`] in a test file, which generates one test per case, so
//! that no case can be left out. Native aspects are tested strictly, emulated ones within their stated bounds, and refused
//! ones for their refusal (see [`guarantees`](crawlway_broker::Broker::guarantees)).
//!
//! No case depends on timing: lower bounds are read from [`Harness::now`] and strict, upper bounds are generous, and every
//! wait is bounded polling.

mod admin;
mod assertions;
mod attempts;
mod content;
mod dead;
mod delay;
mod delivery;
mod document;
mod durability;
mod fixture;
mod groups;
mod leases;
mod limit;
mod list;
mod load;
mod process;
mod routing;

#[doc(hidden)]
pub use crawlway_conformance::suite;
pub use document::assert_documented;
pub use list::{CASES, Case, run};
pub use process::{Process, ServerBackend, ServerHarness};

/// Imports of all cases.
mod prelude {
    pub(crate) use crate::{Harness, assertions::*, fixture::*};
    pub(crate) use crawlway_broker::*;
    pub(crate) use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
        time::{Duration, Instant},
    };
}

use prelude::{Arc, Duration, QueueBackend, Timestamp};

/// Test harness of a backend: opens the broker, restarts and crashes it, and controls its clock.
///
/// Each case creates a harness and calls [`fresh`](Harness::fresh) once, first. At a `restart` or `crash`, the suite has no
/// call in progress on an older handle, and later only checks that a closed one fails.
#[async_trait::async_trait]
pub trait Harness: Send {
    /// Opens a broker without queues. On a shared server, queue names are unique to the case.
    async fn fresh(&mut self) -> Arc<dyn QueueBackend>;

    /// Closes the broker and opens it again on the same data.
    async fn restart(&mut self) -> Arc<dyn QueueBackend>;

    /// Ends the process or the connection without closing, and opens a new handle on the same data.
    async fn crash(&mut self) -> Arc<dyn QueueBackend>;

    /// A second handle on the same data, if the backend supports several.
    async fn second_handle(&mut self) -> Option<Arc<dyn QueueBackend>> {
        None
    }

    /// The current time of the broker's clock.
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    /// Advances time. A manual clock is advanced at once and wakes sleepers.
    async fn pass(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Timeout of one poll, in real time. Shorter for a backend without a network.
    fn poll_timeout(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Timeout for expected events, in real time.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }
}
