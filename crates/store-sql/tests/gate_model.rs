//! The functions of the gate and the embedded gate say the same, whatever is asked of both at the same times.

mod harness;

use crawlway_store_conformance::gate::beside::{Both, Step, long_line, policy, steps};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use crawlway_store_sql::SqlStore;
use harness::Ground;
use proptest::prelude::*;
use std::sync::Arc;

async fn take_all(steps: &[Step]) {
    let ground = Ground::postgres().await;
    let store = SqlStore::open(ground.options()).await.expect("the store opens");
    let gate = store.gate(policy()).await.expect("the gate opens");
    let mut both = Both::new(Arc::new(gate), ground.clock.clone(), |clock| {
        let model = GateOptions { policy: policy(), clock, seed: Some(1), directory: None };
        Arc::new(EmbeddedGate::open(model).expect("the model opens"))
    });
    both.take_all(steps).await;
    ground.clear().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_functions_agree_with_the_embedded_gate(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(take_all(&steps));
    }
}

#[tokio::test]
async fn a_long_line_moves_alike() {
    take_all(&long_line()).await;
}
