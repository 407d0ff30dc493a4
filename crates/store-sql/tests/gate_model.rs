//! The rate limiter on PostgreSQL agrees with the embedded one in random schedules.

mod harness;

use crawlway_store_conformance::gate::beside::{Both, Step, long_line, policy, steps};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use crawlway_store_sql::SqlStore;
use harness::TestDatabase;
use proptest::prelude::*;
use std::sync::Arc;

async fn take_all(steps: &[Step]) {
    let database = TestDatabase::postgres().await;
    let store = SqlStore::open(database.options()).await.expect("the store opens");
    let gate = store.gate(policy()).await.expect("the gate opens");
    let mut both = Both::new(Arc::new(gate), database.clock.clone(), |clock| {
        let model = GateOptions { policy: policy(), clock, seed: Some(1), directory: None };
        Arc::new(EmbeddedGate::open(model).expect("the model opens"))
    });
    both.take_all(steps).await;
    database.clear().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn both_rate_limiters_agree(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(take_all(&steps));
    }
}

#[tokio::test]
async fn both_move_a_long_queue_alike() {
    take_all(&long_line()).await;
}
