//! Harness of the tests: a store with a key prefix of its own on the shared server, and a test clock.
#![allow(dead_code, reason = "each test crate uses its own part")]

use crawlway_store::{
    Ledger, LedgerPolicy, ManualClock, RateLimitPolicy, RateLimiter, RequestPolicy, RequestStore, SeenUrls,
    Timestamp, Tokens, rate_limiter::MAX_MIN_DELAY,
};
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_redis::{ClockSource, RedisOptions, RedisRateLimiter, RedisStore};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// Options with a prefix of its own.
pub(crate) fn options(url: &str) -> RedisOptions {
    RedisOptions { prefix: format!("test-{}", uuid::Uuid::now_v7()), ..RedisOptions::new(url) }
}

pub(crate) struct RedisHarness {
    options: RedisOptions,
    policy: RateLimitPolicy,
    ledger_policy: LedgerPolicy,
    request_policy: RequestPolicy,
    /// Handles kept open until the suite simulates the end of the process.
    handles: Vec<RedisStore>,
}

impl RedisHarness {
    /// On a manual clock.
    pub(crate) fn manual() -> Self {
        Self::with(ClockSource::Manual(ManualClock::at(Timestamp::now())))
    }

    /// On the server's clock, advanced by the suite. It is slowed down, so that a delay of seconds does not end too early
    /// on a busy machine.
    pub(crate) fn server() -> Self {
        Self::with(ClockSource::Slow {
            since: Timestamp::now(),
            factor: 20,
            offset_ms: Arc::new(AtomicI64::new(0)),
        })
    }

    fn with(clock: ClockSource) -> Self {
        let options = RedisOptions { clock, ..options(&crawlway_testkit::servers::redis()) };
        Self {
            options,
            policy: RateLimitPolicy::default(),
            ledger_policy: LedgerPolicy::default(),
            request_policy: RequestPolicy::default(),
            handles: vec![],
        }
    }

    /// A handle with a connection of its own.
    async fn store(&mut self) -> RedisStore {
        let store = RedisStore::connect(self.options.clone()).await.expect("the store opens");
        self.handles.push(store.clone());
        store
    }

    async fn limiter(&mut self) -> RedisRateLimiter {
        let policy = self.policy.clone();
        self.store().await.rate_limiter(policy).await.expect("the suite's policies are valid")
    }
}

#[async_trait::async_trait]
impl Backend for RedisHarness {
    fn now(&self) -> Timestamp {
        match &self.options.clock {
            ClockSource::Server => Timestamp::now(),
            // The server runs on this machine and has the same clock.
            ClockSource::Slow { since, factor, offset_ms } => {
                let ran = Timestamp::now().since(*since).as_millis() as u64 / u64::from(*factor);
                let now = since.as_millis() + ran;
                Timestamp::from_millis(now.saturating_add_signed(offset_ms.load(Ordering::SeqCst)))
            }
            ClockSource::Manual(clock) => clock.now(),
        }
    }

    async fn advance(&mut self, time: Duration) {
        match &self.options.clock {
            ClockSource::Server => {}
            ClockSource::Slow { offset_ms, .. } => {
                // Rounded up, like a wait until the next tick of the clock.
                let time =
                    i64::try_from(time.as_nanos().div_ceil(1_000_000)).expect("a time that a case waits");
                offset_ms.fetch_add(time, Ordering::SeqCst);
            }
            ClockSource::Manual(clock) => clock.advance(time),
        }
    }

    async fn step_back(&mut self, by: Duration) -> bool {
        match &self.options.clock {
            ClockSource::Server => return false,
            ClockSource::Slow { offset_ms, .. } => {
                offset_ms.fetch_sub(
                    i64::try_from(by.as_millis()).expect("a time that a case waits"),
                    Ordering::SeqCst,
                );
            }
            ClockSource::Manual(clock) => clock.set(clock.now() - by),
        }
        true
    }

    fn slack(&self) -> Duration {
        match &self.options.clock {
            ClockSource::Manual(_) => Duration::ZERO,
            ClockSource::Server | ClockSource::Slow { .. } => Duration::from_millis(1500),
        }
    }

    fn expires_by_itself(&self) -> bool {
        true
    }

    fn max_groups(&self) -> usize {
        3_000
    }
}

#[async_trait::async_trait]
impl Harness<dyn SeenUrls> for RedisHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn SeenUrls> {
        Arc::new(self.store().await)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn SeenUrls>> {
        Some(Arc::new(self.store().await))
    }

    async fn reopen(&mut self) -> Arc<dyn SeenUrls> {
        self.handles.clear();
        Arc::new(self.store().await)
    }
}

#[async_trait::async_trait]
impl Harness<dyn RateLimiter> for RedisHarness {
    async fn fresh(&mut self, policy: RateLimitPolicy) -> Arc<dyn RateLimiter> {
        self.policy = policy;
        let limiter = self.limiter().await;
        // On an empty server every group waits its minimum delay first, since data may have been lost.
        self.advance(MAX_MIN_DELAY).await;
        Arc::new(limiter)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RateLimiter>> {
        Some(Arc::new(self.limiter().await))
    }
}

#[async_trait::async_trait]
impl Harness<dyn Ledger> for RedisHarness {
    async fn fresh(&mut self, policy: LedgerPolicy) -> Arc<dyn Ledger> {
        self.ledger_policy = policy;
        Harness::<dyn Ledger>::second_handle(self).await.expect("a handle")
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Ledger>> {
        let ledger = self.store().await.ledger(self.ledger_policy.clone());
        Some(Arc::new(ledger.expect("the suite's policies are valid")))
    }

    async fn reopen(&mut self) -> Arc<dyn Ledger> {
        self.handles.clear();
        Harness::<dyn Ledger>::second_handle(self).await.expect("a handle")
    }
}

#[async_trait::async_trait]
impl Harness<dyn RequestStore> for RedisHarness {
    async fn fresh(&mut self, policy: RequestPolicy) -> Arc<dyn RequestStore> {
        self.request_policy = policy;
        Harness::<dyn RequestStore>::second_handle(self).await.expect("a handle")
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RequestStore>> {
        Some(Arc::new(self.store().await.requests(self.request_policy.clone())))
    }

    async fn reopen(&mut self) -> Arc<dyn RequestStore> {
        self.handles.clear();
        Harness::<dyn RequestStore>::second_handle(self).await.expect("a handle")
    }
}

#[async_trait::async_trait]
impl Harness<dyn Tokens> for RedisHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn Tokens> {
        Arc::new(self.store().await.tokens())
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Tokens>> {
        Some(Arc::new(self.store().await.tokens()))
    }

    async fn reopen(&mut self) -> Arc<dyn Tokens> {
        self.handles.clear();
        Arc::new(self.store().await.tokens())
    }
}
