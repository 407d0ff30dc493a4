//! Outages of the server: calls fail fast while it is unavailable, and work again afterwards.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Group, Ledger, LedgerPolicy, ManualClock, Permit, RateLimitPolicy, RateLimiter, RateLimiterError,
    RateLimits, RequestOutcome, SeenUrls, StoreError, Ticket, Timestamp,
    ledger::{
        AddDeadLetterOutcome, DeadLetterFilter, MessageKey, NewDeadLetter, SessionId, Settlement, TakeOutcome,
    },
    seen::Claim,
};
use crawlway_store_redis::{ClockSource, RedisOptions, RedisStore};
use crawlway_testkit::{
    private_redis::{Persistence, PrivateRedis},
    proxy::{Mode, Proxy},
};
use harness::options;
use std::time::{Duration, Instant};

fn claims() -> [Claim; 1] {
    [Claim::new("https://a.example/", "one")]
}

/// Expects every call to fail as unavailable, and within a bounded time.
async fn calls_fail(store: &RedisStore, limiter: &dyn RateLimiter) {
    let group = Group::new("a").unwrap();
    let permit = Permit { group: group.clone(), id: 1, until: Timestamp::now() };
    let claims = claims();
    for round in 0..5 {
        let begun = Instant::now();
        let (limits, ticket) = (RateLimits::one_at_a_time(Duration::ZERO), Ticket::from_u128(round));
        let unavailable = |answer: RateLimiterError| {
            assert!(matches!(answer, RateLimiterError::Unavailable { .. }), "{answer:?}");
        };
        // Concurrent calls share one attempt to connect.
        let (claimed, reserved, finished, left, extended) = tokio::join!(
            store.claim(&claims, Duration::from_secs(1)),
            limiter.reserve(&group, ticket, &limits),
            limiter.finish(&permit, RequestOutcome::Success),
            limiter.cancel(&group, ticket),
            limiter.extend(std::slice::from_ref(&permit)),
        );
        assert!(matches!(claimed, Err(StoreError::Unavailable { .. })), "{claimed:?}");
        unavailable(reserved.unwrap_err());
        unavailable(finished.unwrap_err());
        unavailable(left.unwrap_err());
        unavailable(extended[0].clone().unwrap_err());
        assert!(begun.elapsed() < Duration::from_secs(30), "the calls took {:?}", begun.elapsed());
    }
}

async fn wait_until_available(store: &RedisStore) {
    let begun = Instant::now();
    while store.claim(&claims(), Duration::from_secs(1)).await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the server is available, and the store has not reconnected"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_reconnects_after_a_kill() {
    let mut redis = PrivateRedis::start(Persistence::None);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let limiter = store.rate_limiter(RateLimitPolicy::default()).await.unwrap();
    for _ in 0..2 {
        redis.kill();
        calls_fail(&store, &limiter).await;
        redis.restart();
        wait_until_available(&store).await;
        limiter.tracked_groups().await.unwrap();
    }
}

async fn survives(mode: Mode) {
    let server = crawlway_testkit::servers::redis();
    let proxy = Proxy::in_front_of(server.trim_start_matches("redis://").to_owned()).await;
    let timeout = Duration::from_millis(500);
    let options = RedisOptions {
        call_timeout: timeout,
        connect_timeout: timeout,
        ..options(&format!("redis://{}", proxy.address()))
    };
    let store = RedisStore::connect(options).await.unwrap();
    let limiter = store.rate_limiter(RateLimitPolicy::default()).await.unwrap();
    for _ in 0..2 {
        proxy.set(mode);
        // Data in transit through the proxy may still arrive.
        let begun = Instant::now();
        while limiter.tracked_groups().await.is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the proxy passes everything");
        }
        calls_fail(&store, &limiter).await;
        proxy.set(Mode::Up);
        wait_until_available(&store).await;
        limiter.tracked_groups().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_reconnects_after_a_cut() {
    survives(Mode::Down).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_reconnects_after_silence() {
    survives(Mode::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_connection_is_dropped() {
    survives(Mode::Stuck).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_counts_as_unavailable() {
    let redis = PrivateRedis::start(Persistence::None);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let limiter = store.rate_limiter(RateLimitPolicy::default()).await.unwrap();
    assert!(redis.command("REPLICAOF 127.0.0.1 1").unwrap().starts_with("+OK"));
    let before = connections(&redis);
    calls_fail(&store, &limiter).await;
    assert!(redis.command("REPLICAOF NO ONE").unwrap().starts_with("+OK"));
    wait_until_available(&store).await;
    limiter.tracked_groups().await.unwrap();
    // The name may resolve to another server, so that each attempt connects again; two connections are the test's own.
    let new = connections(&redis) - before;
    assert!(new > 2, "{new} connections were made");
}

/// Number of connections so far.
fn connections(redis: &PrivateRedis) -> u32 {
    let stats = redis.command("INFO stats").unwrap();
    let made = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    made.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_waits_for_the_server() {
    let mut redis = PrivateRedis::start(Persistence::None);
    redis.kill();
    let brief = RedisOptions { open_timeout: Duration::from_millis(200), ..options(&redis.url()) };
    match RedisStore::connect(brief).await {
        Err(StoreError::Unavailable { detail }) => {
            assert!(detail.contains(&format!("127.0.0.1:{}", redis.port())), "{detail}");
        }
        other => panic!("there is no server: {other:?}"),
    }
    let opening = tokio::spawn(RedisStore::connect(options(&redis.url())));
    tokio::time::sleep(Duration::from_millis(200)).await;
    redis.restart();
    opening.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_options_and_servers_are_refused_at_once() {
    let redis = PrivateRedis::start(Persistence::None);
    let good = options(&redis.url());
    let url = |url: &str| RedisOptions { url: url.to_owned(), ..good.clone() };
    let prefix = |prefix: &str| RedisOptions { prefix: prefix.to_owned(), ..good.clone() };
    for (bad, problem) in [
        (url("https://127.0.0.1/"), "the Redis URL is invalid"),
        (url(&redis.url().replace("redis://", "redis://user:secret@")), "Redis at 127.0.0.1"),
        (prefix(""), "the prefix of the keys"),
        (prefix("a{b"), "the prefix of the keys"),
    ] {
        match RedisStore::connect(bad.clone()).await {
            Err(StoreError::Invalid { problem: text }) => {
                assert!(text.contains(problem) && !text.contains("secret"), "{text}");
            }
            other => panic!("{bad:?} must be refused: {other:?}"),
        }
    }
    for setting in ["CONFIG SET maxmemory 100mb", "CONFIG SET maxmemory-policy allkeys-lru"] {
        assert!(redis.command(setting).unwrap().starts_with("+OK"), "{setting}");
    }
    let text = RedisStore::connect(good).await.unwrap_err().to_string();
    assert!(text.contains("maxmemory-policy is allkeys-lru"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_loses_no_living_session_and_no_dead_letter() {
    let mut redis = PrivateRedis::start(Persistence::AppendOnly);
    let clock = ManualClock::at(Timestamp::now());
    let options = RedisOptions { clock: ClockSource::Manual(clock.clone()), ..options(&redis.url()) };
    let store = RedisStore::connect(options.clone()).await.unwrap();
    let policy = LedgerPolicy::default();
    let ledger = store.ledger(policy.clone()).unwrap();
    let (session, message) = (SessionId("one".to_owned()), MessageKey::new("q", "a").unwrap());
    ledger.open_session(&session, "worker").await.unwrap();
    ledger.take(&session, std::slice::from_ref(&message)).await.unwrap();
    let dead = MessageKey::new("q", "dead").unwrap();
    let letter = NewDeadLetter { message: dead, detail: Default::default(), body: vec![0, 255] };
    let added = ledger.add_dead_letters(&session, std::slice::from_ref(&letter)).await.unwrap();
    let [AddDeadLetterOutcome::Dead(id)] = added[..] else { panic!("{added:?}") };

    redis.kill();
    let failed = [
        ledger.heartbeat(&session).await.map(drop),
        ledger.take(&session, std::slice::from_ref(&message)).await.map(drop),
        ledger.settle(&session, &[(message.clone(), Settlement::Done)]).await.map(drop),
        ledger.dead_letters("q", &DeadLetterFilter::default(), None, 1).await.map(drop),
        ledger.paused().await.map(drop),
        ledger.reap_sessions().await.map(drop),
    ];
    for answer in failed {
        assert!(answer.as_ref().is_err_and(StoreError::is_transient), "{answer:?}");
    }
    clock.advance(policy.session_lease * 5);
    redis.restart();
    wait_until_available(&store).await;
    let other = RedisStore::connect(options).await.unwrap().ledger(policy).unwrap();
    assert_eq!(other.reap_sessions().await.unwrap(), [], "its process had no chance to send a heartbeat");
    assert_eq!(ledger.heartbeat(&session).await, Ok(true));
    assert_eq!(ledger.settle(&session, &[(message.clone(), Settlement::Returned)]).await, Ok(vec![true]));
    let taken = ledger.take(&session, &[message]).await.unwrap();
    assert_eq!(taken, [TakeOutcome::Taken(Default::default())], "nothing was counted");
    assert_eq!(other.bodies(&[id]).await, Ok(vec![Some(vec![0, 255])]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_the_server_closed_fails_no_call() {
    let redis = PrivateRedis::start(Persistence::AppendOnly);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    for _ in 0..3 {
        store.claim(&claims(), Duration::from_secs(1)).await.unwrap();
        redis.command("CLIENT KILL TYPE normal SKIPME yes").unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
