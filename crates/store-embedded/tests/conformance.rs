//! The embedded gate passes the whole conformance suite, on a clock that the suite moves.

use crawlway_store::{Clock, Gate, ManualClock, Policy, Timestamp, conformance::gate::Harness};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::{sync::Arc, time::Duration};

struct EmbeddedHarness {
    clock: Arc<ManualClock>,
    gate: Option<EmbeddedGate>,
}

impl EmbeddedHarness {
    fn new() -> Self {
        Self { clock: ManualClock::at(Timestamp::now()), gate: None }
    }
}

#[async_trait::async_trait]
impl Harness for EmbeddedHarness {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        let options = GateOptions { policy, clock: Clock::Manual(self.clock.clone()), seed: Some(1) };
        let gate = EmbeddedGate::open(options).expect("the suite's policies can be held");
        self.gate = Some(gate.clone());
        Arc::new(gate)
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        self.gate.clone().map(|gate| Arc::new(gate) as Arc<dyn Gate>)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
    }

    async fn set_back(&mut self, by: Duration) -> bool {
        self.clock.set(self.clock.now() - by);
        true
    }
}

crawlway_store::gate_conformance_suite!(EmbeddedHarness::new());
