//! Outages of PostgreSQL: calls fail soon while the server is away, and work again after.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Frontier, Ledger, LedgerPolicy, StoreError,
    ledger::{DeadLetterFilter, MessageKey, SessionId, Settlement, TakeOutcome},
};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use crawlway_testkit::proxy::{Mode, Proxy};
use harness::{POLICY, TestDatabase, crawl, url};
use std::time::{Duration, Instant};

/// The user, the server and the rest of the address.
fn parts(database: &TestDatabase) -> (&str, &str, &str) {
    let Database::Postgres(address) = &database.place else { panic!("this is about PostgreSQL") };
    let (user, after) = address.split_once("@").expect("postgres://user@host:port/database");
    let (server, rest) = after.split_once('/').expect("a database");
    (user, server, rest)
}

async fn store_behind(proxy: &Proxy, database: &TestDatabase) -> SqlStore {
    let (user, _, rest) = parts(database);
    let place = Database::Postgres(format!("{user}@{}/{rest}", proxy.address()));
    let options =
        SqlOptions { database: place, call_timeout: Duration::from_millis(500), ..database.options() };
    let options = SqlOptions { open_timeout: Duration::from_secs(20), ..options };
    SqlStore::open(options).await.expect("it opens")
}

async fn store_behind_a_proxy(database: &TestDatabase) -> (SqlStore, Proxy) {
    let proxy = Proxy::in_front_of(parts(database).1.to_owned()).await;
    (store_behind(&proxy, database).await, proxy)
}

async fn works_again(store: &SqlStore) {
    let begun = Instant::now();
    while store.claim_next(1, 1).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is back and the store does not notice");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn survives(mode: Mode) {
    let database = TestDatabase::postgres().await;
    let (store, proxy) = store_behind_a_proxy(&database).await;
    let c = crawl(&store, "c", None).await;
    // Several connections are open, and all of them die.
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, c) = (store.clone(), c.clone());
            tokio::spawn(async move { store.add(&c, &[url("a", &n.to_string())]).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    for _ in 0..2 {
        proxy.set(mode);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let begun = Instant::now();
            let answer = store.claim_next(1, 1).await;
            assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
            slowest = slowest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(slowest < Duration::from_secs(10), "one call took {slowest:?}");
        proxy.set(Mode::Up);
        works_again(&store).await;
    }
    store.add(&c, &[url("b", "new")]).await.unwrap();
    database.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_recovers_from_a_server_that_refuses() {
    survives(Mode::Down).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_recovers_from_a_server_that_is_silent() {
    survives(Mode::Silent).await;
}

/// A worker sends heartbeats every third of a lease, so that one falls into the grace period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_a_lease_takes_nothing_from_live_workers() {
    let database = TestDatabase::postgres().await;
    let (holder, proxy) = store_behind_a_proxy(&database).await;
    let c = crawl(&holder, "c", None).await;
    holder.add(&c, &[url("a", "held"), url("b", "lost"), url("b", "waits")]).await.unwrap();
    let mut taken = holder.claim_next(2, 1).await.unwrap();
    taken.sort_by(|one, other| one.url.cmp(&other.url));
    // Another process, which has the same outage.
    let other = store_behind(&proxy, &database).await;
    database.clock.advance(POLICY.lease / 2);
    assert_eq!(other.claim_next(1, 1).await, Ok(vec![]), "the one host is busy, the other has nothing");
    assert_eq!(holder.extend(&[taken[0].receipt, taken[1].receipt]).await, Ok(vec![true, true]));

    proxy.set(Mode::Down);
    assert!(other.claim_next(1, 1).await.is_err() && holder.extend(&[taken[0].receipt]).await.is_err());
    database.clock.advance(POLICY.lease * 3);
    proxy.set(Mode::Up);
    works_again(&other).await;
    works_again(&holder).await;
    let due = other.next_due().await.unwrap();
    assert!(
        due.is_some_and(|due| due > database.clock.now()),
        "nothing is due before the end of the grace period: {due:?}"
    );
    database.clock.advance(POLICY.lease / 3);
    assert_eq!(other.claim_next(1, 1).await, Ok(vec![]));
    assert_eq!(holder.extend(&[taken[0].receipt]).await, Ok(vec![true]), "its worker lives and has it still");

    // Leases that were not extended by then are lost.
    database.clock.advance(POLICY.lease / 6);
    let again = other.claim_next(5, 1).await.unwrap();
    assert_eq!(again.iter().map(|taken| taken.url.as_str()).collect::<Vec<_>>(), ["https://b/lost"]);
    assert_eq!(holder.extend(&[taken[0].receipt, taken[1].receipt]).await, Ok(vec![true, false]));
    database.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_started_after_an_outage_takes_nothing_from_live_workers() {
    let database = TestDatabase::postgres().await;
    let holder = database.open().await;
    let c = crawl(&holder, "c", None).await;
    holder.add(&c, &[url("a", "1")]).await.unwrap();
    let taken = holder.claim_next(1, 1).await.unwrap();
    database.clock.advance(POLICY.lease * 3);
    let new = database.open().await;
    assert_eq!(new.claim_next(1, 1).await, Ok(vec![]), "its worker may have been cut off");
    assert_eq!(holder.extend(&[taken[0].receipt]).await, Ok(vec![true]));
    database.clock.advance(POLICY.lease);
    assert_eq!(new.claim_next(1, 1).await.unwrap()[0].url, "https://a/1", "now its worker is lost");
    // `take_back`, for a process that knows to be the only one, has no grace period.
    let sole = database.open().await;
    assert_eq!(sole.reclaim_all().await, Ok(1));
    database.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_the_ledger_is_transient_and_loses_no_living_session() {
    let database = TestDatabase::postgres().await;
    let (store, proxy) = store_behind_a_proxy(&database).await;
    let policy = LedgerPolicy::default();
    let ledger = store.ledger(policy.clone()).unwrap();
    let other = store_behind(&proxy, &database).await.ledger(policy.clone()).unwrap();
    let (session, message) = (SessionId("one".to_owned()), MessageKey::new("q", "a").unwrap());
    ledger.open_session(&session, "worker").await.unwrap();
    ledger.take(&session, std::slice::from_ref(&message)).await.unwrap();

    proxy.set(Mode::Down);
    let failed = [
        ledger.heartbeat(&session).await.map(drop),
        ledger.take(&session, std::slice::from_ref(&message)).await.map(drop),
        ledger.settle(&session, &[(message.clone(), Settlement::Done)]).await.map(drop),
        ledger.dead_letters("q", &DeadLetterFilter::default(), None, 1).await.map(drop),
        ledger.paused().await.map(drop),
        other.reap_sessions().await.map(drop),
    ];
    for answer in failed {
        assert!(answer.as_ref().is_err_and(StoreError::is_transient), "{answer:?}");
    }
    database.clock.advance(policy.session_lease * 5);
    proxy.set(Mode::Up);
    works_again(&store).await;
    let begun = Instant::now();
    let reaped = loop {
        match other.reap_sessions().await {
            Ok(reaped) => break reaped,
            Err(_) => {
                assert!(begun.elapsed() < Duration::from_secs(20), "the ledger is not noticed to be back");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(reaped, [], "its process had no chance to send a heartbeat");
    assert_eq!(ledger.heartbeat(&session).await, Ok(true));
    assert_eq!(ledger.settle(&session, &[(message.clone(), Settlement::Returned)]).await, Ok(vec![true]));
    let taken = ledger.take(&session, &[message]).await.unwrap();
    assert_eq!(taken, [TakeOutcome::Taken(Default::default())], "nothing was counted");
    database.clear().await;
}
