//! A PostgreSQL server that goes away and comes back: calls fail soon while it is away and work again after.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{Frontier, StoreError};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use crawlway_testkit::proxy::{Mode, Proxy};
use harness::{Ground, crawl, url};
use std::time::{Duration, Instant};

async fn store_behind_a_proxy(ground: &Ground) -> (SqlStore, Proxy) {
    let Place::Postgres(address) = &ground.place else { panic!("this is about PostgreSQL") };
    let (before, after) = address.split_once("@").expect("postgres://user@host:port/database");
    let (server, rest) = after.split_once('/').expect("a database");
    let proxy = Proxy::before(server.to_owned()).await;
    let place = Place::Postgres(format!("{before}@{}/{rest}", proxy.address()));
    let options = SqlOptions { place, answer_within: Duration::from_millis(500), ..ground.options() };
    (
        SqlStore::open(SqlOptions { open_within: Duration::from_secs(20), ..options })
            .await
            .expect("it opens"),
        proxy,
    )
}

async fn works_again(store: &SqlStore) {
    let begun = Instant::now();
    while store.next(1, 1).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is back and the store does not notice");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn survives(mode: Mode) {
    let ground = Ground::postgres().await;
    let (store, proxy) = store_behind_a_proxy(&ground).await;
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
            let answer = store.next(1, 1).await;
            assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
            slowest = slowest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(slowest < Duration::from_secs(10), "one call took {slowest:?}");
        proxy.set(Mode::Up);
        works_again(&store).await;
    }
    store.add(&c, &[url("b", "new")]).await.unwrap();
    ground.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_is_noticed_and_found_again() {
    survives(Mode::Down).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_noticed_and_found_again() {
    survives(Mode::Silent).await;
}
