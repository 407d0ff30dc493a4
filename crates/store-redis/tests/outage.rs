//! A server that goes away and comes back: calls fail soon while it is away, and work again after.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Gate, GateError, Group, Limits, Outcome, Permit, Policy, SeenUrls, StoreError, Ticket, Timestamp,
    seen::Claim,
};
use crawlway_store_redis::{RedisOptions, RedisStore};
use crawlway_testkit::{
    private_redis::{Keeps, PrivateRedis},
    proxy::{Mode, Proxy},
};
use harness::options;
use std::time::{Duration, Instant};

fn claims() -> [Claim; 1] {
    [Claim::new("https://a.example/", "one")]
}

/// Every call fails for a while, and none of them takes long.
async fn is_away(store: &RedisStore, gate: &dyn Gate) {
    let group = Group::new("a").unwrap();
    let permit = Permit { group: group.clone(), id: 1, until: Timestamp::now() };
    let claims = claims();
    for round in 0..5 {
        let begun = Instant::now();
        let (limits, ticket) = (Limits::one_at_a_time(Duration::ZERO), Ticket::from_u128(round));
        let away = |answer: GateError| assert!(matches!(answer, GateError::Unavailable { .. }), "{answer:?}");
        // Some of them wait for one connection to be tried, and are told with it.
        let (claimed, reserved, finished, left, extended) = tokio::join!(
            store.claim(&claims, Duration::from_secs(1)),
            gate.reserve(&group, ticket, &limits),
            gate.finish(&permit, Outcome::Success),
            gate.leave(&group, ticket),
            gate.extend(std::slice::from_ref(&permit)),
        );
        assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
        away(reserved.unwrap_err());
        away(finished.unwrap_err());
        away(left.unwrap_err());
        away(extended[0].clone().unwrap_err());
        assert!(begun.elapsed() < Duration::from_secs(30), "the calls took {:?}", begun.elapsed());
    }
}

async fn is_back(store: &RedisStore) {
    let begun = Instant::now();
    while store.claim(&claims(), Duration::from_secs(1)).await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the server is back and the store does not notice"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_is_noticed_and_found_again() {
    let mut redis = PrivateRedis::start(Keeps::Nothing);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let gate = store.gate(Policy::default()).await.unwrap();
    for _ in 0..2 {
        redis.kill();
        is_away(&store, &gate).await;
        redis.resume();
        is_back(&store).await;
        gate.tracked().await.unwrap();
    }
}

async fn survives(mode: Mode) {
    let server = crawlway_testkit::servers::redis();
    let proxy = Proxy::before(server.trim_start_matches("redis://").to_owned()).await;
    let within = Duration::from_millis(500);
    let options = RedisOptions {
        answer_within: within,
        connect_within: within,
        ..options(&format!("redis://{}", proxy.address()))
    };
    let store = RedisStore::connect(options).await.unwrap();
    let gate = store.gate(Policy::default()).await.unwrap();
    for _ in 0..2 {
        proxy.set(mode);
        // What is on its way through the proxy may still arrive.
        let begun = Instant::now();
        while gate.tracked().await.is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the proxy passes everything");
        }
        is_away(&store, &gate).await;
        proxy.set(Mode::Up);
        is_back(&store).await;
        gate.tracked().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_is_made_again() {
    survives(Mode::Down).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_noticed_and_found_again() {
    survives(Mode::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_speaks_again_is_given_up() {
    survives(Mode::Stuck).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_a_replica_is_away_until_it_is_none() {
    let redis = PrivateRedis::start(Keeps::Nothing);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let gate = store.gate(Policy::default()).await.unwrap();
    assert!(redis.ask("REPLICAOF 127.0.0.1 1").unwrap().starts_with("+OK"));
    let before = connections(&redis);
    is_away(&store, &gate).await;
    assert!(redis.ask("REPLICAOF NO ONE").unwrap().starts_with("+OK"));
    is_back(&store).await;
    gate.tracked().await.unwrap();
    // The name may have led to another server by then, so it was asked anew; two more connections are this test's own.
    let new = connections(&redis) - before;
    assert!(new > 2, "{new} connections were made");
}

/// How many were made so far.
fn connections(redis: &PrivateRedis) -> u32 {
    let stats = redis.ask("INFO stats").unwrap();
    let made = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    made.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_waits_for_a_server_that_is_not_there_yet() {
    let mut redis = PrivateRedis::start(Keeps::Nothing);
    redis.kill();
    let brief = RedisOptions { open_within: Duration::from_millis(200), ..options(&redis.url()) };
    match RedisStore::connect(brief).await {
        Err(StoreError::Unavailable { detail }) => {
            assert!(detail.contains(&format!("127.0.0.1:{}", redis.port())), "{detail}");
        }
        other => panic!("there is no server: {other:?}"),
    }
    let opening = tokio::spawn(RedisStore::connect(options(&redis.url())));
    tokio::time::sleep(Duration::from_millis(200)).await;
    redis.resume();
    opening.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_be_is_refused_at_once() {
    let redis = PrivateRedis::start(Keeps::Nothing);
    let good = options(&redis.url());
    let url = |url: &str| RedisOptions { url: url.to_owned(), ..good.clone() };
    let prefix = |prefix: &str| RedisOptions { prefix: prefix.to_owned(), ..good.clone() };
    for (bad, problem) in [
        (url("https://127.0.0.1/"), "the address of Redis is wrong"),
        (url("rediss://127.0.0.1/"), "the address of Redis is wrong"),
        (url(&redis.url().replace("redis://", "redis://user:secret@")), "Redis at 127.0.0.1"),
        (prefix(""), "the prefix of the keys"),
        (prefix("a{b"), "the prefix of the keys"),
    ] {
        match RedisStore::connect(bad.clone()).await {
            Err(StoreError::Invalid { problem: told }) => {
                assert!(told.contains(problem) && !told.contains("secret"), "{told}");
            }
            other => panic!("{bad:?} must be refused: {other:?}"),
        }
    }
    for setting in ["CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy allkeys-lru"] {
        assert!(redis.ask(setting).unwrap().starts_with("+OK"), "{setting}");
    }
    let told = RedisStore::connect(good).await.unwrap_err().to_string();
    assert!(told.contains("maxmemory-policy is allkeys-lru"), "{told}");
}
