//! The rate limiter on PostgreSQL agrees with the embedded one in random schedules.

mod harness;

use crawlway_store_conformance::rate_limiter::model::{ModelComparison, Step, long_queue, policy, steps};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use crawlway_store_sql::SqlStore;
use harness::TestDatabase;
use proptest::prelude::*;
use std::sync::Arc;

async fn take_all(steps: &[Step]) {
    let database = TestDatabase::postgres().await;
    let store = SqlStore::open(database.options()).await.expect("the store opens");
    let rate_limiter = store.rate_limiter(policy()).await.expect("the rate limiter opens");
    let mut both = ModelComparison::new(Arc::new(rate_limiter), database.clock.clone(), |clock| {
        let model = RateLimiterOptions { policy: policy(), clock, seed: Some(1), directory: None };
        Arc::new(EmbeddedRateLimiter::open(model).expect("the model opens"))
    });
    both.run(steps).await;
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
    take_all(&long_queue()).await;
}
