//! Restarts of the server, with or without its data, cost one minimum delay and a second fetch at most.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Group, ManualClock, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome,
    Reservation, SeenUrls, Ticket, Timestamp, WaitReason,
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use crawlway_store_redis::{ClockSource, RedisOptions, RedisRateLimiter, RedisStore};
use crawlway_testkit::private_redis::{Persistence, PrivateRedis};
use harness::options;
use std::time::{Duration, Instant};

const MIN_DELAY: Duration = Duration::from_millis(1500);
const SEQUENTIAL: RateLimits = RateLimits::one_at_a_time(MIN_DELAY);
/// A minimum delay that does not end before it is checked.
const MINUTE: Duration = Duration::from_secs(60);
/// Longer than any of these tests.
const LONG: Duration = Duration::from_secs(3600);

fn group(name: &str) -> Group {
    Group::new(name).unwrap()
}

fn policy() -> RateLimitPolicy {
    RateLimitPolicy { lease: LONG, ..RateLimitPolicy::default() }
}

async fn open(redis: &PrivateRedis) -> (RedisStore, RedisRateLimiter) {
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let limiter = store.rate_limiter(policy()).await.unwrap();
    (store, limiter)
}

/// Waits for a permit.
async fn acquire(limiter: &RedisRateLimiter, group: &Group) -> Permit {
    let begun = Instant::now();
    loop {
        match limiter.reserve(group, Ticket::of("acquire"), &SEQUENTIAL).await.unwrap() {
            Reservation::Granted(permit) => return permit,
            Reservation::NotBefore { at, .. } => {
                assert!(begun.elapsed() < Duration::from_secs(60), "`{group}` gets no permit");
                tokio::time::sleep(at.since(Timestamp::now())).await;
            }
        }
    }
}

async fn send_request(limiter: &RedisRateLimiter, group: &Group, outcome: RequestOutcome) {
    let permit = acquire(limiter, group).await;
    limiter.finish(&permit, outcome).await.unwrap();
}

/// Waits until the store has reconnected: the first call after a restart may find the connection broken.
async fn wait_until_available(store: &RedisStore) {
    let begun = Instant::now();
    while store.forget(&["https://unused.example/".to_owned()]).await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the server is available, and the store has not reconnected"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Expects the group to wait one minimum delay from some time after this one.
async fn expect_delay(limiter: &RedisRateLimiter, name: &str, since: Timestamp) {
    let limits = RateLimits::one_at_a_time(MINUTE);
    match limiter.reserve(&group(name), Ticket::of("delayed"), &limits).await.unwrap() {
        Reservation::NotBefore { at, .. } => {
            let now = Timestamp::now();
            assert!(
                at >= since + MINUTE,
                "`{name}` waits {:?} from {since:?}, less than the minimum delay",
                at.since(since)
            );
            assert!(
                at <= now + MINUTE,
                "`{name}` waits {:?} more, longer than the minimum delay",
                at.since(now)
            );
        }
        Reservation::Granted(_) => {
            panic!("`{name}` gets a permit, although the server may have lost its last request")
        }
    }
    limiter.cancel(&group(name), Ticket::of("delayed")).await.unwrap();
}

fn seen(url: &str) -> SeenUrl {
    SeenUrl { url: url.to_owned(), owner: "one".to_owned(), ttl: LONG }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_kept_its_data_delays_every_group_once() {
    let mut redis = PrivateRedis::start(Persistence::AppendOnly);
    let (store, limiter) = open(&redis).await;
    store.mark(&[seen("https://a.example/seen")]).await.unwrap();
    store.claim(&[Claim::new("https://a.example/claimed", "one")], LONG).await.unwrap();
    let (held, ended) = (acquire(&limiter, &group("held")).await, acquire(&limiter, &group("ended")).await);
    limiter.finish(&ended, RequestOutcome::Success).await.unwrap();
    send_request(&limiter, &group("blocked"), RequestOutcome::Blocked { retry_after: Some(LONG) }).await;
    send_request(&limiter, &group("idle"), RequestOutcome::Success).await;
    tokio::time::sleep(MIN_DELAY).await;

    redis.kill();
    let since = Timestamp::now();
    redis.restart();
    wait_until_available(&store).await;

    let claims =
        [Claim::new("https://a.example/seen", "two"), Claim::new("https://a.example/claimed", "two")];
    let answer = store.claim(&claims, LONG).await.unwrap();
    assert!(matches!(answer[..], [ClaimOutcome::Seen { .. }, ClaimOutcome::Taken { .. }]), "{answer:?}");
    // The data may be older than the last requests, so that every group waits one minimum delay.
    expect_delay(&limiter, "idle", since).await;
    expect_delay(&limiter, "unknown", since).await;
    let answer = limiter.reserve(&group("held"), Ticket::of("x"), &SEQUENTIAL).await.unwrap();
    assert!(
        matches!(answer, Reservation::NotBefore { reason: WaitReason::Concurrency, .. }),
        "the permit is still held: {answer:?}"
    );
    let answer = limiter.reserve(&group("blocked"), Ticket::of("x"), &SEQUENTIAL).await.unwrap();
    assert!(
        matches!(answer, Reservation::NotBefore { reason: WaitReason::Backoff, .. }),
        "it is still in back-off: {answer:?}"
    );
    assert!(limiter.extend(std::slice::from_ref(&held)).await[0].is_ok(), "the permit is still held");
    assert_eq!(limiter.finish(&held, RequestOutcome::Success).await, Ok(()), "the permit is still held");
    send_request(&limiter, &group("idle"), RequestOutcome::Success).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_data_delays_every_group_once() {
    let mut redis = PrivateRedis::start(Persistence::None);
    let (store, limiter) = open(&redis).await;
    let url = "https://a.example/";
    store.mark(&[seen(url)]).await.unwrap();
    let [held, finished] =
        [acquire(&limiter, &group("held")).await, acquire(&limiter, &group("finished")).await];
    send_request(&limiter, &group("sent"), RequestOutcome::Success).await;

    redis.kill();
    let since = Timestamp::now();
    redis.restart();
    wait_until_available(&store).await;

    expect_delay(&limiter, "sent", since).await;
    expect_delay(&limiter, "unknown", since).await;
    assert_eq!(
        store.claim(&[Claim::new(url, "two")], LONG).await.unwrap(),
        [ClaimOutcome::Granted],
        "it is fetched again"
    );
    // Requests of the earlier epoch go on: extending puts one in flight again, and finishing ends it.
    assert!(limiter.extend(std::slice::from_ref(&held)).await[0].is_ok(), "its request is in flight");
    let end = Timestamp::now();
    assert_eq!(limiter.finish(&finished, RequestOutcome::Success).await, Ok(()), "its request was in flight");
    expect_delay(&limiter, "finished", end).await;
    tokio::time::sleep(MIN_DELAY).await;
    let answer = limiter.reserve(&group("held"), Ticket::of("x"), &SEQUENTIAL).await.unwrap();
    assert!(
        matches!(answer, Reservation::NotBefore { reason: WaitReason::Concurrency, .. }),
        "the permit is held again: {answer:?}"
    );
    assert_eq!(limiter.finish(&held, RequestOutcome::Success).await, Ok(()));
    send_request(&limiter, &group("sent"), RequestOutcome::Success).await;
    let forged = Permit { id: 0, ..held };
    assert!(matches!(
        limiter.finish(&forged, RequestOutcome::Success).await,
        Err(RateLimiterError::Fenced { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_prefix_on_a_server_notices_its_restart() {
    let mut redis = PrivateRedis::start(Persistence::AppendOnly);
    let ((one, limiter), (other, other_limiter)) = (open(&redis).await, open(&redis).await);
    send_request(&limiter, &group("a"), RequestOutcome::Success).await;
    send_request(&other_limiter, &group("a"), RequestOutcome::Success).await;
    tokio::time::sleep(MIN_DELAY).await;
    redis.kill();
    let since = Timestamp::now();
    redis.restart();
    wait_until_available(&one).await;
    wait_until_available(&other).await;
    expect_delay(&limiter, "a", since).await;
    expect_delay(&other_limiter, "a", since).await;
    // Opening it again begins no new epoch.
    send_request(&limiter, &group("a"), RequestOutcome::Success).await;
    tokio::time::sleep(MIN_DELAY).await;
    let again = one.rate_limiter(policy()).await.unwrap();
    assert!(matches!(
        again.reserve(&group("a"), Ticket::of("x"), &SEQUENTIAL).await.unwrap(),
        Reservation::Granted(_)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_data_or_scripts_delay_every_group_once() {
    let redis = PrivateRedis::start(Persistence::None);
    let (_, limiter) = open(&redis).await;
    for command in ["FLUSHALL", "SCRIPT FLUSH"] {
        send_request(&limiter, &group("a"), RequestOutcome::Success).await;
        tokio::time::sleep(MIN_DELAY).await;
        let since = Timestamp::now();
        assert!(redis.command(command).unwrap().starts_with("+OK"), "{command}");
        expect_delay(&limiter, "a", since).await;
    }
    send_request(&limiter, &group("a"), RequestOutcome::Success).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_to_an_earlier_clock_delays_every_group_once() {
    let redis = PrivateRedis::start(Persistence::None);
    let clock = ManualClock::at(Timestamp::now());
    let source = ClockSource::Manual(clock.clone());
    let store = RedisStore::connect(RedisOptions { clock: source, ..options(&redis.url()) }).await.unwrap();
    let limiter = store.rate_limiter(policy()).await.unwrap();
    clock.advance(MINUTE);
    send_request(&limiter, &group("a"), RequestOutcome::Success).await;
    clock.advance(MINUTE);
    for back in [MINUTE * 60, Duration::from_millis(500)] {
        assert!(redis.command("SCRIPT FLUSH").unwrap().starts_with("+OK"));
        clock.set(clock.now() - back);
        for name in ["a", "unknown"] {
            let limits = RateLimits::one_at_a_time(MINUTE);
            let answer = limiter.reserve(&group(name), Ticket::of("x"), &limits).await.unwrap();
            let Reservation::NotBefore { at, .. } = answer else { panic!("`{name}` gets a permit at once") };
            assert!(at >= clock.now() + MINUTE, "`{name}` waits {:?}", at.since(clock.now()));
            assert!(at <= clock.now() + MINUTE * 2, "`{name}` waits {:?}", at.since(clock.now()));
            limiter.cancel(&group(name), Ticket::of("x")).await.unwrap();
        }
        clock.advance(MINUTE * 2);
    }
    assert_eq!(
        limiter.tracked_groups().await,
        Ok(0),
        "idle groups are removed, whatever the clock was before"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_state_is_deleted() {
    let redis = PrivateRedis::start(Persistence::None);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let brief = Duration::from_millis(200);
    let limiter = store
        .rate_limiter(RateLimitPolicy {
            idle_ttl: brief,
            grace: brief,
            lease: Duration::from_secs(1),
            ..policy()
        })
        .await
        .unwrap();
    let limits = RateLimits { concurrency: 2, min_delay: brief };
    for name in ["a", "b"] {
        for _ in 0..4 {
            let _ = limiter
                .reserve(&group(name), Ticket::from_u128(uuid::Uuid::now_v7().as_u128()), &limits)
                .await
                .unwrap();
        }
    }
    store.mark(&[SeenUrl { ttl: brief, ..seen("https://a.example/") }]).await.unwrap();
    store.claim(&[Claim::new("https://b.example/", "one")], brief).await.unwrap();
    let begun = Instant::now();
    // The epoch remains, the mark of the previous version, and the set of groups until the next call.
    loop {
        let keys = redis.command("DBSIZE").unwrap();
        if keys.starts_with(":3\r\n") {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "keys stay: {keys} {}",
            redis.command("KEYS *").unwrap()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(limiter.tracked_groups().await, Ok(0));
    assert!(redis.command("DBSIZE").unwrap().starts_with(":2\r\n"), "{}", redis.command("KEYS *").unwrap());
}
