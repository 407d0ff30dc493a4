//! The rate limiter beside its previous version, and beside many processes of its own.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{ManualClock, RateLimitPolicy, Timestamp};
use crawlway_store_conformance::rate_limiter::contention;
use crawlway_store_redis::{ClockSource, RedisOptions, RedisStore};
use crawlway_testkit::servers;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_the_previous_version_are_refused_and_refuse() {
    let clock = ManualClock::at(Timestamp::now());
    let source = ClockSource::Manual(clock.clone());
    let options = RedisOptions { clock: source, ..harness::options(&servers::redis()) };
    let life = format!("{{{}}}:gate:life", options.prefix);
    let client = redis::Client::open(servers::redis()).unwrap();
    let mut previous = client.get_multiplexed_async_connection().await.unwrap();
    // Every call of the previous version begins with this read, and records the time once a second.
    let read = redis::cmd("HMGET").arg(&life).arg(&["born", "seen", "shift"]).to_owned();
    let seen = clock.now().as_millis();
    let record = redis::cmd("HSET").arg(&life).arg("born").arg(seen).arg("seen").arg(seen).to_owned();
    let () = record.query_async(&mut previous).await.unwrap();

    let store = RedisStore::connect(options).await.unwrap();
    clock.advance(Duration::from_secs(20));
    let refused = store.rate_limiter(RateLimitPolicy::default()).await.unwrap_err().to_string();
    assert!(
        refused.contains("earlier version") && refused.contains("stop them; this one goes on 30s later"),
        "{refused}"
    );
    let _: Vec<Option<String>> = read.query_async(&mut previous).await.unwrap();

    clock.advance(Duration::from_secs(11));
    store.rate_limiter(RateLimitPolicy::default()).await.unwrap();
    let refused = read.query_async::<Vec<Option<String>>>(&mut previous).await.unwrap_err().to_string();
    assert!(refused.contains("WRONGTYPE"), "{refused}");
    store.rate_limiter(RateLimitPolicy::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_need_two_swaps_a_permit_at_most() {
    let options = harness::options(&servers::redis());
    let mut limiters = Vec::new();
    for _ in 0..contention::PROCESSES {
        let store = RedisStore::connect(options.clone()).await.unwrap();
        limiters.push(store.rate_limiter(contention::policy()).await.unwrap());
    }
    contention::check_swaps(&limiters).await;
}
