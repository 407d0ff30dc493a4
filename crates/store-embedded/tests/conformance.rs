//! Conformance suite of the embedded rate limiter, in memory and with a directory, on a manual clock.

use crawlway_store::{Clock, ManualClock, RateLimitPolicy, RateLimiter, Timestamp};
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::sync::Arc;
use tempfile::TempDir;

struct EmbeddedHarness {
    clock: Arc<ManualClock>,
    limiter: Option<EmbeddedRateLimiter>,
    folder: Option<TempDir>,
}

impl EmbeddedHarness {
    fn in_memory() -> Self {
        Self { clock: ManualClock::at(Timestamp::now()), limiter: None, folder: None }
    }

    fn with_a_directory() -> Self {
        Self { folder: Some(tempfile::tempdir().expect("a temporary folder")), ..Self::in_memory() }
    }
}

impl Backend for EmbeddedHarness {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

#[async_trait::async_trait]
impl Harness<dyn RateLimiter> for EmbeddedHarness {
    async fn fresh(&mut self, policy: RateLimitPolicy) -> Arc<dyn RateLimiter> {
        let clock = Clock::Manual(self.clock.clone());
        let directory = self.folder.as_ref().map(|folder| folder.path().join("gate"));
        let options = RateLimiterOptions { policy, clock, seed: Some(1), directory };
        let limiter = EmbeddedRateLimiter::open(options).expect("the suite's policies are valid");
        self.limiter = Some(limiter.clone());
        Arc::new(limiter)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RateLimiter>> {
        self.limiter.clone().map(|limiter| Arc::new(limiter) as Arc<dyn RateLimiter>)
    }
}

mod in_memory {
    use super::EmbeddedHarness;
    crawlway_store_conformance::rate_limiter!(EmbeddedHarness::in_memory());
}

mod with_a_directory {
    use super::EmbeddedHarness;
    crawlway_store_conformance::rate_limiter!(EmbeddedHarness::with_a_directory());
}
