//! Conformance suite of the embedded rate limiter, in memory and with a directory, on a manual clock.

use crawlway_store::{Clock, Gate, ManualClock, Policy, Timestamp};
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::sync::Arc;
use tempfile::TempDir;

struct EmbeddedHarness {
    clock: Arc<ManualClock>,
    limiter: Option<EmbeddedGate>,
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
impl Harness<dyn Gate> for EmbeddedHarness {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        let clock = Clock::Manual(self.clock.clone());
        let directory = self.folder.as_ref().map(|folder| folder.path().join("gate"));
        let options = GateOptions { policy, clock, seed: Some(1), directory };
        let limiter = EmbeddedGate::open(options).expect("the suite's policies are valid");
        self.limiter = Some(limiter.clone());
        Arc::new(limiter)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        self.limiter.clone().map(|limiter| Arc::new(limiter) as Arc<dyn Gate>)
    }
}

mod in_memory {
    use super::EmbeddedHarness;
    crawlway_store_conformance::gate!(EmbeddedHarness::in_memory());
}

mod with_a_directory {
    use super::EmbeddedHarness;
    crawlway_store_conformance::gate!(EmbeddedHarness::with_a_directory());
}
