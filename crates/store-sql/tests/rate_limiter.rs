//! The rate limiter on PostgreSQL by the server's own clock, after a crash of the server, and from many connections.
#![allow(
    clippy::unwrap_used,
    reason = "a failure of the rate limiter fails the test, wherever it is noticed"
)]

mod harness;

use crawlway_clock::Clock;
use crawlway_store::{
    Group, Permit, RateLimitPolicy, RateLimiter, RateLimiterError, RateLimits, RequestOutcome, Reservation,
    Ticket, Timestamp,
};
use crawlway_store_conformance::rate_limiter::contention;
use crawlway_store_sql::{SqlOptions, SqlRateLimiter, SqlStore};
use harness::TestDatabase;
use std::{sync::Arc, time::Duration};

const GAP: Duration = Duration::from_millis(400);

async fn by_the_server(database: &TestDatabase) -> SqlRateLimiter {
    with_policy(database, RateLimitPolicy::default()).await
}

async fn with_policy(database: &TestDatabase, policy: RateLimitPolicy) -> SqlRateLimiter {
    let options = SqlOptions { clock: Clock::System, ..database.options() };
    SqlStore::open(options).await.unwrap().rate_limiter(policy).await.unwrap()
}

fn group(name: &str) -> Group {
    Group::new(name).unwrap()
}

/// Reserves until a permit is granted, and counts the waits.
async fn go(
    rate_limiter: &dyn RateLimiter,
    group: &Group,
    ticket: Ticket,
    limits: &RateLimits,
) -> (Permit, usize) {
    let mut waits = 0;
    loop {
        match rate_limiter.reserve(group, ticket, limits).await.unwrap() {
            Reservation::Granted(permit) => return (permit, waits),
            Reservation::NotBefore { at, .. } => {
                waits += 1;
                // The server runs on this machine and has the same clock.
                tokio::time::sleep(at.since(Timestamp::now()) + Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_processes_keep_the_minimum_delay_by_the_servers_clock() {
    let database = TestDatabase::postgres().await;
    let limits = RateLimits::one_at_a_time(GAP);
    let g = group("example.org");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..4 {
        let rate_limiter = by_the_server(&database).await;
        let g = g.clone();
        tasks.spawn(async move {
            let (permit, _) = go(&rate_limiter, &g, Ticket::from_u128(number), &limits).await;
            let began = Timestamp::now();
            rate_limiter.finish(&permit, RequestOutcome::Success).await.unwrap();
            (began, Timestamp::now())
        });
    }
    let mut requests = tasks.join_all().await;
    requests.sort();
    for pair in requests.windows(2) {
        let apart = pair[1].0.since(pair[0].0);
        // The end of a request is stored between the two looks at the clock.
        assert!(apart + Duration::from_millis(2) >= GAP, "{apart:?} apart: {requests:?}");
    }
    database.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_for_new_groups_do_not_block_each_other() {
    let database = TestDatabase::postgres().await;
    let gates = [by_the_server(&database).await, by_the_server(&database).await];
    let limits = RateLimits { concurrency: 8, min_delay: Duration::ZERO };
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..240u32 {
        let (rate_limiter, g) = (gates[number as usize % 2].clone(), group(&format!("host-{}", number % 30)));
        tasks.spawn(async move {
            let (permit, _) = go(&rate_limiter, &g, Ticket::from_u128(number.into()), &limits).await;
            rate_limiter.finish(&permit, RequestOutcome::Success).await.unwrap();
            assert_eq!(
                rate_limiter.finish(&permit, RequestOutcome::Success).await,
                Err(RateLimiterError::Fenced { group: g.clone() })
            );
        });
    }
    tasks.join_all().await;
    assert_eq!(gates[0].tracked_groups().await, Ok(30));
    database.clear().await;
}

/// A crash of the server empties unlogged tables; the test truncates them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_every_group_waits_its_minimum_delay() {
    let database = TestDatabase::postgres().await;
    let rate_limiter: Arc<dyn RateLimiter> = Arc::new(
        SqlStore::open(database.options())
            .await
            .unwrap()
            .rate_limiter(RateLimitPolicy::default())
            .await
            .unwrap(),
    );
    let limits = RateLimits::one_at_a_time(Duration::from_secs(10));
    database.clock.advance(limits.min_delay);
    let g = group("example.org");
    let (held, _) = go(&*rate_limiter, &g, Ticket::from_u128(1), &limits).await;
    database.clock.advance(Duration::from_secs(1));
    database.execute("TRUNCATE rate_limiter_epoch, rate_limiter_groups, rate_limiter_places").await;

    let new_life = database.clock.now();
    for name in ["example.org", "example.com"] {
        let turn = rate_limiter.reserve(&group(name), Ticket::from_u128(2), &limits).await.unwrap();
        assert!(
            matches!(turn, Reservation::NotBefore { at, .. } if at == new_life + limits.min_delay),
            "{name}: {turn:?}"
        );
    }
    database.clock.advance(Duration::from_secs(5));
    let extended = rate_limiter.extend(std::slice::from_ref(&held)).await;
    assert_eq!(
        extended,
        [Ok(database.clock.now() + rate_limiter.policy().lease)],
        "a permit from before the crash counts on"
    );
    database.clock.advance(Duration::from_secs(20));
    let turn = rate_limiter.reserve(&g, Ticket::from_u128(2), &limits).await.unwrap();
    assert!(matches!(turn, Reservation::NotBefore { .. }), "its request is still on its way: {turn:?}");
    assert_eq!(rate_limiter.finish(&held, RequestOutcome::Success).await, Ok(()));
    database.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_need_two_swaps_a_permit_at_most() {
    let database = TestDatabase::postgres().await;
    let mut limiters = Vec::new();
    for _ in 0..contention::PROCESSES {
        limiters.push(with_policy(&database, contention::policy()).await);
    }
    contention::check_swaps(&limiters).await;
    database.clear().await;
}

#[tokio::test]
async fn sqlite_has_no_rate_limiter() {
    let database = TestDatabase::sqlite().await;
    let refused =
        database.open().await.rate_limiter(RateLimitPolicy::default()).await.unwrap_err().to_string();
    assert!(refused.contains("SQLite has no rate limiter"), "{refused}");
}
