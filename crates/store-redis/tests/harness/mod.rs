//! How tests open the store: with keys of their own on the shared server, and a clock that can be moved.
#![allow(dead_code, reason = "each test crate uses its own part")]

use crawlway_store::{Gate, ManualClock, Policy, SeenUrls, Timestamp, gate::MAX_GAP};
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_redis::{RedisGate, RedisOptions, RedisStore, Time};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// Keys of its own.
pub(crate) fn options(url: &str) -> RedisOptions {
    RedisOptions { prefix: format!("test-{}", uuid::Uuid::now_v7()), ..RedisOptions::new(url) }
}

pub(crate) struct RedisHarness {
    options: RedisOptions,
    policy: Policy,
    /// Kept until the suite loses its process.
    handles: Vec<RedisStore>,
}

impl RedisHarness {
    /// By a clock that stands still until it is moved.
    pub(crate) fn by_hand() -> Self {
        Self::with(Time::Manual(ManualClock::at(Timestamp::now())))
    }

    /// By the server's clock, which runs on, and to which is added what the suite lets pass. It is slow, so that a
    /// gap of seconds is not over before a busy machine has asked.
    pub(crate) fn by_the_server() -> Self {
        Self::with(Time::Slow { since: Timestamp::now(), times: 20, ahead: Arc::new(AtomicI64::new(0)) })
    }

    fn with(time: Time) -> Self {
        let options = RedisOptions { time, ..options(&crawlway_testkit::servers::redis()) };
        Self { options, policy: Policy::default(), handles: vec![] }
    }

    /// A handle with a connection of its own.
    async fn store(&mut self) -> RedisStore {
        let store = RedisStore::connect(self.options.clone()).await.expect("the store opens");
        self.handles.push(store.clone());
        store
    }

    async fn gate(&mut self) -> RedisGate {
        let policy = self.policy.clone();
        self.store().await.gate(policy).await.expect("the suite's policies can be held")
    }
}

#[async_trait::async_trait]
impl Backend for RedisHarness {
    fn now(&self) -> Timestamp {
        match &self.options.time {
            Time::Server => Timestamp::now(),
            // The server runs on this machine, so that its clock is ours.
            Time::Slow { since, times, ahead } => {
                let ran = Timestamp::now().since(*since).as_millis() as u64 / u64::from(*times);
                let now = since.as_millis() + ran;
                Timestamp::from_millis(now.saturating_add_signed(ahead.load(Ordering::SeqCst)))
            }
            Time::Manual(clock) => clock.now(),
        }
    }

    async fn pass(&mut self, time: Duration) {
        match &self.options.time {
            Time::Server => {}
            Time::Slow { ahead, .. } => {
                // Rounded up, as a wait that ends with a tick of the clock would.
                let time =
                    i64::try_from(time.as_nanos().div_ceil(1_000_000)).expect("a time that a case waits");
                ahead.fetch_add(time, Ordering::SeqCst);
            }
            Time::Manual(clock) => clock.advance(time),
        }
    }

    async fn set_back(&mut self, by: Duration) -> bool {
        match &self.options.time {
            Time::Server => return false,
            Time::Slow { ahead, .. } => {
                ahead.fetch_sub(
                    i64::try_from(by.as_millis()).expect("a time that a case waits"),
                    Ordering::SeqCst,
                );
            }
            Time::Manual(clock) => clock.set(clock.now() - by),
        }
        true
    }

    fn slack(&self) -> Duration {
        match &self.options.time {
            Time::Manual(_) => Duration::ZERO,
            Time::Server | Time::Slow { .. } => Duration::from_millis(1500),
        }
    }

    fn vanishes(&self) -> bool {
        true
    }

    fn many_groups(&self) -> usize {
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
impl Harness<dyn Gate> for RedisHarness {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        self.policy = policy;
        let gate = self.gate().await;
        // A gate on an empty server lets every group wait its gap from then on, since what was there may be lost.
        self.pass(MAX_GAP).await;
        Arc::new(gate)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        Some(Arc::new(self.gate().await))
    }
}
