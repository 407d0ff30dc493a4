//! Concurrent workers with connections of their own: nothing is handed out twice, and all counts are right.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    Frontier,
    frontier::{CrawlState, PageFacts, UrlVerdict},
};
use harness::{TestDatabase, crawl, look, url};
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

on_both!(
    nothing_is_handed_out_twice,
    a_page_limit_holds_for_all_workers,
    one_host_is_never_asked_by_two,
    a_budget_holds_for_all_workers,
);

/// Handles on the same database; clones on SQLite, which has one process.
async fn handles(database: &TestDatabase, count: usize) -> Vec<crawlway_store_sql::SqlStore> {
    let first = database.open().await;
    let mut stores = vec![first.clone()];
    while stores.len() < count {
        let shared = matches!(database.place, crawlway_store_sql::Database::Postgres(_));
        stores.push(if shared { database.open().await } else { first.clone() });
    }
    stores
}

fn done() -> UrlVerdict {
    let facts = PageFacts { fetched: true, ..PageFacts::default() };
    UrlVerdict::Done { outcome: "published".to_owned(), facts, host_delay: Duration::ZERO }
}

/// Each page links to some known and some new pages.
async fn nothing_is_handed_out_twice(database: &TestDatabase) {
    const PAGES: usize = 1500;
    let stores = handles(database, 4).await;
    let c = crawl(&stores[0], "c", None).await;
    let page = |n: usize| url(&format!("h{}", n % 37), &n.to_string());
    stores[0].add(&c, &[page(0)]).await.unwrap();
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let mut tasks = Vec::new();
    for (worker, store) in (0..8).map(|n| (n, stores[n % 4].clone())) {
        let (c, seen) = (c.clone(), seen.clone());
        tasks.push(tokio::spawn(async move {
            while look(&store, &c).await.state == CrawlState::Running {
                let taken = store.claim_next(1 + worker % 5 * 4, 2).await.unwrap();
                if taken.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                for taken in &taken {
                    assert!(seen.lock().unwrap().insert(taken.url.clone()), "{} came twice", taken.url);
                    let n: usize = taken.url.rsplit('/').next().unwrap().parse().unwrap();
                    let links: Vec<_> =
                        (n * 3 / 2..n * 2 + 9).rev().filter(|n| *n < PAGES).map(page).collect();
                    store.add(&c, &links).await.unwrap();
                }
                let endings: Vec<_> = taken.iter().map(|taken| (taken.receipt, done())).collect();
                let settled = store.settle(&endings).await.unwrap();
                assert!(settled.iter().all(Option::is_some));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let counts = look(&stores[0], &c).await.counts;
    assert_eq!((counts.waiting, counts.in_flight, counts.done), (0, 0, PAGES as u64));
    assert_eq!((counts.fetched, counts.outcomes["published"]), (PAGES as u64, PAGES as u64));
    assert_eq!(seen.lock().unwrap().len(), PAGES);
}

async fn a_page_limit_holds_for_all_workers(database: &TestDatabase) {
    let stores = handles(database, 4).await;
    let c = crawl(&stores[0], "c", Some(50)).await;
    let urls: Vec<_> = (0..200).map(|n| url(&format!("h{n}"), "")).collect();
    stores[0].add(&c, &urls).await.unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, total) = (stores[n % 4].clone(), taken.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    total.fetch_add(store.claim_next(7, 1).await.unwrap().len(), Ordering::SeqCst);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(taken.load(Ordering::SeqCst), 50);
}

async fn one_host_is_never_asked_by_two(database: &TestDatabase) {
    let stores = handles(database, 4).await;
    let c = crawl(&stores[0], "c", None).await;
    let urls: Vec<_> = (0..60).map(|n| url("only", &n.to_string())).collect();
    stores[0].add(&c, &urls).await.unwrap();
    let at_it = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|n| {
            let (store, c, at_it) = (stores[n % 4].clone(), c.clone(), at_it.clone());
            tokio::spawn(async move {
                while look(&store, &c).await.state == CrawlState::Running {
                    for taken in store.claim_next(3, 1).await.unwrap() {
                        assert_eq!(at_it.fetch_add(1, Ordering::SeqCst), 0, "two at one host");
                        tokio::task::yield_now().await;
                        at_it.fetch_sub(1, Ordering::SeqCst);
                        store.settle(&[(taken.receipt, done())]).await.unwrap();
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(look(&stores[0], &c).await.counts.done, 60);
}

async fn a_budget_holds_for_all_workers(database: &TestDatabase) {
    let stores = handles(database, 4).await;
    let c = crawl(&stores[0], "c", None).await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, c) = (stores[n % 4].clone(), c.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    let budget = crawlway_store::frontier::UrlBudget {
                        kind: "k".to_owned(),
                        max: 100,
                        reason: "full".to_owned(),
                    };
                    let page = |page: usize| crawlway_store::frontier::NewUrl {
                        budget: Some(budget.clone()),
                        ..url("h", &page.to_string())
                    };
                    let mut links: Vec<_> = (0..20).map(|link| page(round * 13 + link)).collect();
                    if n % 2 == 0 {
                        links.reverse();
                    }
                    store.add(&c, &links).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(look(&stores[0], &c).await.counts.total(), 100);
}
