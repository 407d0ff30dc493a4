//! What a backend supplies: how to open it, and its clock.

use crawlway_store::{
    Frontier, FrontierPolicy, Gate, ManualClock, PageIndex, Policy, SeenUrls, Timestamp, Trails, UrlRecords,
};
use std::{sync::Arc, time::Duration};

/// A contract that has a suite.
pub trait Contract: Send + Sync + 'static {
    /// What a store of this contract is opened with.
    type Policy: Clone + Send;

    /// What the cases open it with that name nothing else.
    fn usual() -> Self::Policy;

    /// Whether an open store states this policy.
    fn states(&self, _policy: &Self::Policy) -> bool {
        true
    }
}

impl Contract for dyn Frontier {
    type Policy = FrontierPolicy;

    fn usual() -> FrontierPolicy {
        crate::frontier::USUAL
    }

    fn states(&self, policy: &FrontierPolicy) -> bool {
        self.policy() == *policy
    }
}

impl Contract for dyn Gate {
    type Policy = Policy;

    fn usual() -> Policy {
        crate::gate::usual()
    }

    fn states(&self, policy: &Policy) -> bool {
        self.policy() == policy
    }
}

/// These are opened without a policy.
macro_rules! without_policy {
    ($($contract:ty),*) => {
        $(impl Contract for $contract {
            type Policy = ();

            fn usual() {}
        })*
    };
}

without_policy!(dyn PageIndex, dyn SeenUrls, dyn Trails, dyn UrlRecords);

/// What is the same for all contracts of a backend: its clock, and what it can.
///
/// Cases let hours pass. A backend that goes by a server's clock adds to it, in tests, what the harness was told to
/// let pass. Lower bounds ("not before") are strict; upper bounds allow for [`slack`](Self::slack).
#[async_trait::async_trait]
pub trait Backend: Send {
    /// The clock that the store goes by, if it stands still until it is moved. The suites of trails, inventory records
    /// and pages need none, since their times are the caller's.
    fn clock(&self) -> Option<&ManualClock> {
        None
    }

    /// The time that the store goes by.
    fn now(&self) -> Timestamp {
        self.clock().map_or_else(Timestamp::now, ManualClock::now)
    }

    /// Lets this much time pass.
    async fn pass(&mut self, time: Duration) {
        self.clock().expect("a clock that can be moved").advance(time);
    }

    /// Sets the clock back, and says whether it can.
    async fn set_back(&mut self, by: Duration) -> bool {
        self.clock().is_some_and(|clock| {
            clock.set(clock.now() - by);
            true
        })
    }

    /// By how much an upper bound may be missed because the clock goes on by itself; 5 s at most, and none for a
    /// frontier.
    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether records whose time is over vanish by themselves, so that there is nothing to sweep.
    fn vanishes(&self) -> bool {
        false
    }

    /// How many groups a gate is asked to keep in mind at once. A backend with a network in between asks for fewer.
    fn many_groups(&self) -> usize {
        1_000_000
    }
}

/// How a backend opens a store of a contract. Each case makes its own harness and calls [`fresh`](Self::fresh) once,
/// first.
#[async_trait::async_trait]
pub trait Harness<C: Contract + ?Sized>: Backend {
    /// Opens an empty store. On a shared server it has a name space of its own.
    async fn fresh(&mut self, policy: C::Policy) -> Arc<C>;

    /// A further handle on the same state, where the backend can have several at once.
    async fn second_handle(&mut self) -> Option<Arc<C>> {
        None
    }

    /// Loses all handles, of which the suite has none left, and opens the same state again with the same policy. A handle
    /// may be lost without having been closed; what was in flight stays so until its lease ends or it is taken back.
    async fn reopen(&mut self) -> Arc<C> {
        self.second_handle().await.expect("a backend with one handle at a time says how it is opened again")
    }
}
