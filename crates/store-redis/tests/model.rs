//! Model test: the script and the embedded rate limiter give the same answers to the same calls at the same times.

mod harness;

use crawlway_store::{ManualClock, Timestamp};
use crawlway_store_conformance::gate::beside::{Both, long_line, policy, steps};
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use crawlway_store_redis::{ClockSource, RedisOptions, RedisStore};
use harness::options;
use proptest::prelude::*;
use std::sync::Arc;

async fn both() -> Both {
    let clock = ManualClock::at(Timestamp::now());
    let source = ClockSource::Manual(clock.clone());
    let options = RedisOptions { clock: source, ..options(&crawlway_testkit::servers::redis()) };
    let store = RedisStore::connect(options).await.expect("the store opens");
    let ours = Arc::new(store.gate(policy()).await.expect("the limiter opens"));
    Both::new(ours, clock, |clock| {
        let model = GateOptions { policy: policy(), clock, seed: Some(1), directory: None };
        Arc::new(EmbeddedGate::open(model).expect("the model opens"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_script_agrees_with_the_embedded_limiter(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { both().await.take_all(&steps).await });
    }
}

#[tokio::test]
async fn many_slots_move_alike() {
    both().await.take_all(&long_line()).await;
}
