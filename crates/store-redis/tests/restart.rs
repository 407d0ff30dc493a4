//! A server that starts again, with everything or with nothing, costs a gap and a second fetch, and no more.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Gate, GateError, Group, Limits, ManualClock, Outcome, Permit, Policy, SeenUrls, Ticket, Timestamp, Turn,
    Why,
    seen::{Claim, Claimed, Seen},
};
use crawlway_store_redis::{RedisGate, RedisOptions, RedisStore, Time};
use crawlway_testkit::private_redis::{Keeps, PrivateRedis};
use harness::options;
use std::time::{Duration, Instant};

const GAP: Duration = Duration::from_millis(1500);
const ALONE: Limits = Limits::one_at_a_time(GAP);
/// A gap that no test waits for, so that none is over before it is looked at.
const MINUTE: Duration = Duration::from_secs(60);
/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(3600);

fn group(name: &str) -> Group {
    Group::new(name).unwrap()
}

fn ticket(name: &str) -> Ticket {
    Ticket::of(name)
}

fn policy() -> Policy {
    Policy { lease: LONG, ..Policy::default() }
}

async fn open(redis: &PrivateRedis) -> (RedisStore, RedisGate) {
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let gate = store.gate(policy()).await.unwrap();
    (store, gate)
}

/// Asks until it goes.
async fn go(gate: &RedisGate, group: &Group) -> Permit {
    let begun = Instant::now();
    loop {
        match gate.reserve(group, ticket("goes"), &ALONE).await.unwrap() {
            Turn::Go(permit) => return permit,
            Turn::NotBefore { at, .. } => {
                assert!(begun.elapsed() < Duration::from_secs(60), "`{group}` never goes");
                tokio::time::sleep(at.since(Timestamp::now())).await;
            }
        }
    }
}

async fn sends(gate: &RedisGate, group: &Group, outcome: Outcome) {
    let permit = go(gate, group).await;
    gate.finish(&permit, outcome).await.unwrap();
}

/// The first call after an end of the server may find the connection broken. It says so, and the next one connects.
async fn is_back(store: &RedisStore) {
    let begun = Instant::now();
    while store.forget(&["https://nobody.example/".to_owned()]).await.is_err() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the server is back and the store does not notice"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Expects the group to be held one gap from some time after this one.
async fn is_held(gate: &RedisGate, name: &str, since: Timestamp) {
    let limits = Limits::one_at_a_time(MINUTE);
    match gate.reserve(&group(name), ticket("held"), &limits).await.unwrap() {
        Turn::NotBefore { at, .. } => {
            let now = Timestamp::now();
            assert!(at >= since + MINUTE, "`{name}` is held {:?} from {since:?}, not a gap", at.since(since));
            assert!(at <= now + MINUTE, "`{name}` is held {:?} more, longer than a gap", at.since(now));
        }
        Turn::Go(_) => panic!("`{name}` may have been asked by somebody that the server forgot, and goes"),
    }
    gate.leave(&group(name), ticket("held")).await.unwrap();
}

fn claim(url: &str, owner: &str) -> Claim {
    Claim::new(url, owner)
}

fn seen(url: &str) -> Seen {
    Seen { url: url.to_owned(), owner: "one".to_owned(), ttl: LONG }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_kept_everything_goes_on_after_one_gap() {
    let mut redis = PrivateRedis::start(Keeps::Everything);
    let (store, gate) = open(&redis).await;
    store.mark(&[seen("https://a.example/seen")]).await.unwrap();
    store.claim(&[claim("https://a.example/claimed", "one")], LONG).await.unwrap();
    let (held, ended) = (go(&gate, &group("held")).await, go(&gate, &group("ended")).await);
    gate.finish(&ended, Outcome::Success).await.unwrap();
    sends(&gate, &group("blocked"), Outcome::Blocked { retry_after: Some(LONG) }).await;
    sends(&gate, &group("idle"), Outcome::Success).await;
    tokio::time::sleep(GAP).await;

    redis.kill();
    let since = Timestamp::now();
    redis.resume();
    is_back(&store).await;

    let claims = [claim("https://a.example/seen", "two"), claim("https://a.example/claimed", "two")];
    let told = store.claim(&claims, LONG).await.unwrap();
    assert!(matches!(told[..], [Claimed::Seen { .. }, Claimed::Taken { .. }]), "{told:?}");
    // What it kept may be older than what was, so it trusts nothing for a gap.
    is_held(&gate, "idle", since).await;
    is_held(&gate, "unheard-of", since).await;
    let told = gate.reserve(&group("held"), ticket("x"), &ALONE).await.unwrap();
    assert!(matches!(told, Turn::NotBefore { why: Why::Busy, .. }), "the permit is held still: {told:?}");
    let told = gate.reserve(&group("blocked"), ticket("x"), &ALONE).await.unwrap();
    assert!(matches!(told, Turn::NotBefore { why: Why::BackOff, .. }), "it is left alone still: {told:?}");
    assert!(gate.extend(std::slice::from_ref(&held)).await[0].is_ok(), "the permit is held still");
    assert_eq!(gate.finish(&held, Outcome::Success).await, Ok(()), "the permit is held still");
    sends(&gate, &group("idle"), Outcome::Success).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_everything_holds_every_group_one_gap() {
    let mut redis = PrivateRedis::start(Keeps::Nothing);
    let (store, gate) = open(&redis).await;
    let url = "https://a.example/";
    store.mark(&[seen(url)]).await.unwrap();
    let [held, finished] = [go(&gate, &group("held")).await, go(&gate, &group("finished")).await];
    sends(&gate, &group("sent"), Outcome::Success).await;

    redis.kill();
    let since = Timestamp::now();
    redis.resume();
    is_back(&store).await;

    is_held(&gate, "sent", since).await;
    is_held(&gate, "unheard-of", since).await;
    assert_eq!(
        store.claim(&[claim(url, "two")], LONG).await.unwrap(),
        [Claimed::Ours],
        "it is fetched again"
    );
    // Requests of before go on: whoever extends is in flight again, and an end is an end.
    assert!(gate.extend(std::slice::from_ref(&held)).await[0].is_ok(), "its request goes on");
    let end = Timestamp::now();
    assert_eq!(gate.finish(&finished, Outcome::Success).await, Ok(()), "its request went on");
    is_held(&gate, "finished", end).await;
    tokio::time::sleep(GAP).await;
    let told = gate.reserve(&group("held"), ticket("x"), &ALONE).await.unwrap();
    assert!(matches!(told, Turn::NotBefore { why: Why::Busy, .. }), "the permit is held again: {told:?}");
    assert_eq!(gate.finish(&held, Outcome::Success).await, Ok(()));
    sends(&gate, &group("sent"), Outcome::Success).await;
    let forged = Permit { id: 0, ..held };
    assert!(matches!(gate.finish(&forged, Outcome::Success).await, Err(GateError::Fenced { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shares_a_server_and_not_the_keys_learns_of_a_loss_all_the_same() {
    let mut redis = PrivateRedis::start(Keeps::Everything);
    let ((one, gate), (other, other_gate)) = (open(&redis).await, open(&redis).await);
    sends(&gate, &group("a"), Outcome::Success).await;
    sends(&other_gate, &group("a"), Outcome::Success).await;
    tokio::time::sleep(GAP).await;
    redis.kill();
    let since = Timestamp::now();
    redis.resume();
    is_back(&one).await;
    is_back(&other).await;
    is_held(&gate, "a", since).await;
    is_held(&other_gate, "a", since).await;
    // And who opens a gate that others have open begins no new life of it.
    sends(&gate, &group("a"), Outcome::Success).await;
    tokio::time::sleep(GAP).await;
    let again = one.gate(policy()).await.unwrap();
    assert!(matches!(again.reserve(&group("a"), ticket("x"), &ALONE).await.unwrap(), Turn::Go(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_emptied_or_forgets_its_scripts_holds_every_group_one_gap() {
    let redis = PrivateRedis::start(Keeps::Nothing);
    let (_, gate) = open(&redis).await;
    for command in ["FLUSHALL", "SCRIPT FLUSH"] {
        sends(&gate, &group("a"), Outcome::Success).await;
        tokio::time::sleep(GAP).await;
        let since = Timestamp::now();
        assert!(redis.ask(command).unwrap().starts_with("+OK"), "{command}");
        is_held(&gate, "a", since).await;
    }
    sends(&gate, &group("a"), Outcome::Success).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_over_with_an_earlier_clock_holds_every_group_one_gap() {
    let redis = PrivateRedis::start(Keeps::Nothing);
    let clock = ManualClock::at(Timestamp::now());
    let time = Time::Manual(clock.clone());
    let store = RedisStore::connect(RedisOptions { time, ..options(&redis.url()) }).await.unwrap();
    let gate = store.gate(policy()).await.unwrap();
    clock.advance(MINUTE);
    sends(&gate, &group("a"), Outcome::Success).await;
    clock.advance(MINUTE);
    for back in [MINUTE * 60, Duration::from_millis(500)] {
        assert!(redis.ask("SCRIPT FLUSH").unwrap().starts_with("+OK"));
        clock.set(clock.now() - back);
        for name in ["a", "unheard-of"] {
            let limits = Limits::one_at_a_time(MINUTE);
            let told = gate.reserve(&group(name), ticket("x"), &limits).await.unwrap();
            let Turn::NotBefore { at, .. } = told else { panic!("`{name}` goes at once") };
            assert!(at >= clock.now() + MINUTE, "`{name}` waits {:?}", at.since(clock.now()));
            assert!(at <= clock.now() + MINUTE * 2, "`{name}` waits {:?}", at.since(clock.now()));
            gate.leave(&group(name), ticket("x")).await.unwrap();
        }
        clock.advance(MINUTE * 2);
    }
    assert_eq!(gate.tracked().await, Ok(0), "idle groups are forgotten, whatever the clock was before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_over_vanishes_by_itself() {
    let redis = PrivateRedis::start(Keeps::Nothing);
    let store = RedisStore::connect(options(&redis.url())).await.unwrap();
    let brief = Duration::from_millis(200);
    let gate = store
        .gate(Policy { idle: brief, grace: brief, lease: Duration::from_secs(1), ..policy() })
        .await
        .unwrap();
    let limits = Limits { in_flight: 2, gap: brief };
    for name in ["a", "b"] {
        for _ in 0..4 {
            let _ = gate
                .reserve(&group(name), Ticket::from_u128(uuid::Uuid::now_v7().as_u128()), &limits)
                .await
                .unwrap();
        }
    }
    store.mark(&[Seen { ttl: brief, ..seen("https://a.example/") }]).await.unwrap();
    store.claim(&[claim("https://b.example/", "one")], brief).await.unwrap();
    let begun = Instant::now();
    // What is left is the life of the gate, and the list of its groups until somebody asks.
    loop {
        let keys = redis.ask("DBSIZE").unwrap();
        if keys.starts_with(":2\r\n") {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "keys stay: {keys} {}",
            redis.ask("KEYS *").unwrap()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(gate.tracked().await, Ok(0));
    assert!(redis.ask("DBSIZE").unwrap().starts_with(":1\r\n"), "{}", redis.ask("KEYS *").unwrap());
}
