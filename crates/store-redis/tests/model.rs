//! Model test: the script and the embedded rate limiter give the same answers to the same calls at the same times.

mod harness;

use crawlway_store::{ManualClock, Timestamp};
use crawlway_store_conformance::rate_limiter::model::{ModelComparison, long_queue, policy, steps};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use crawlway_store_redis::{ClockSource, RedisOptions, RedisStore};
use harness::options;
use proptest::prelude::*;
use std::sync::Arc;

async fn both() -> ModelComparison {
    let clock = ManualClock::at(Timestamp::now());
    let source = ClockSource::Manual(clock.clone());
    let options = RedisOptions { clock: source, ..options(&crawlway_testkit::servers::redis()) };
    let store = RedisStore::connect(options).await.expect("the store opens");
    let ours = Arc::new(store.rate_limiter(policy()).await.expect("the limiter opens"));
    ModelComparison::new(ours, clock, |clock| {
        let model = RateLimiterOptions { policy: policy(), clock, seed: Some(1), directory: None };
        Arc::new(EmbeddedRateLimiter::open(model).expect("the model opens"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_script_agrees_with_the_embedded_limiter(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { both().await.run(&steps).await });
    }
}

#[tokio::test]
async fn many_slots_move_alike() {
    both().await.run(&long_queue()).await;
}
