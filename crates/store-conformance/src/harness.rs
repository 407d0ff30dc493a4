//! Traits that a backend implements in its tests: opening a store, and its clock.

use crawlway_store::{
    BlobStore, Frontier, FrontierPolicy, Ledger, LedgerPolicy, ManualClock, PageIndex, RateLimitPolicy,
    RateLimiter, RequestPolicy, RequestStore, RunStore, SeenUrls, Timestamp, Tokens, Trails, UrlRecords,
};
use std::{sync::Arc, time::Duration};

/// A contract with a suite.
pub trait Contract: Send + Sync + 'static {
    /// Policy that a store is opened with.
    type Policy: Clone + Send;

    /// Policy of cases that need no other.
    fn default_policy() -> Self::Policy;

    /// Whether an open store reports this policy.
    fn has_policy(&self, _policy: &Self::Policy) -> bool {
        true
    }
}

impl Contract for dyn Frontier {
    type Policy = FrontierPolicy;

    fn default_policy() -> FrontierPolicy {
        crate::frontier::POLICY
    }

    fn has_policy(&self, policy: &FrontierPolicy) -> bool {
        self.policy() == *policy
    }
}

impl Contract for dyn RateLimiter {
    type Policy = RateLimitPolicy;

    fn default_policy() -> RateLimitPolicy {
        crate::rate_limiter::default_policy()
    }

    fn has_policy(&self, policy: &RateLimitPolicy) -> bool {
        self.policy() == policy
    }
}

impl Contract for dyn Ledger {
    type Policy = LedgerPolicy;

    fn default_policy() -> LedgerPolicy {
        crate::ledger::POLICY
    }

    fn has_policy(&self, policy: &LedgerPolicy) -> bool {
        self.policy() == policy
    }
}

impl Contract for dyn RequestStore {
    type Policy = RequestPolicy;

    fn default_policy() -> RequestPolicy {
        crate::requests::POLICY
    }

    fn has_policy(&self, policy: &RequestPolicy) -> bool {
        self.policy() == policy
    }
}

/// Contracts without a policy.
macro_rules! without_policy {
    ($($contract:ty),*) => {
        $(impl Contract for $contract {
            type Policy = ();

            fn default_policy() {}
        })*
    };
}

without_policy!(
    dyn BlobStore,
    dyn PageIndex,
    dyn RunStore,
    dyn SeenUrls,
    dyn Tokens,
    dyn Trails,
    dyn UrlRecords
);

/// Clock and capabilities of a backend, for all its contracts.
///
/// Cases let hours pass. A backend that uses a server's clock adds an offset to it in tests. Lower bounds ("not before") are
/// strict; upper bounds allow for [`slack`](Self::slack).
#[async_trait::async_trait]
pub trait Backend: Send {
    /// The manual clock of the store, if it has one. The suites of trails, tokens, inventory records and pages need none, since the
    /// caller passes their times.
    fn clock(&self) -> Option<&ManualClock> {
        None
    }

    /// The time of the store.
    fn now(&self) -> Timestamp {
        self.clock().map_or_else(Timestamp::now, ManualClock::now)
    }

    /// Advances the clock.
    async fn advance(&mut self, time: Duration) {
        self.clock().expect("a clock that can be moved").advance(time);
    }

    /// Sets the clock back; false if that is not possible.
    async fn step_back(&mut self, by: Duration) -> bool {
        self.clock().is_some_and(|clock| {
            clock.set(clock.now() - by);
            true
        })
    }

    /// Tolerance of upper bounds for a clock that runs by itself; 5 s at most, and none for a frontier.
    fn slack(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether expired records disappear by themselves, so that there is nothing to sweep.
    fn expires_by_itself(&self) -> bool {
        false
    }

    /// Number of groups in the case of many groups; less for a backend behind a network.
    fn max_groups(&self) -> usize {
        1_000_000
    }
}

/// Opens stores of a contract. Each case creates its own harness and first calls [`fresh`](Self::fresh), once.
#[async_trait::async_trait]
pub trait Harness<C: Contract + ?Sized>: Backend {
    /// Opens an empty store. On a shared server it has a namespace of its own.
    async fn fresh(&mut self, policy: C::Policy) -> Arc<C>;

    /// A further handle on the same state, if the backend supports several.
    async fn second_handle(&mut self) -> Option<Arc<C>> {
        None
    }

    /// Drops all handles and opens the same state again with the same policy. A handle may be dropped without being closed;
    /// leases stay until they end or are taken back.
    async fn reopen(&mut self) -> Arc<C> {
        self.second_handle().await.expect("a backend with one handle at a time implements `reopen`")
    }
}
