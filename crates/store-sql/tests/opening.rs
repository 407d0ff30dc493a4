//! Opening: the tables are made once, by whoever comes first, and a newer database is refused.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{End, Frontier, StoreError, Timestamp, TrailEntry, Trails, frontier::Added};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use harness::{Ground, crawl, look, url};
use std::time::{Duration, Instant};

on_both!(
    what_was_stored_is_there_after_opening_again,
    a_newer_database_is_refused,
    many_open_at_once,
    what_waits_in_a_database_of_before_is_counted,
    nothing_is_suspect_in_a_database_of_before,
    trails_that_are_open_in_a_database_of_before_stay_so,
);

async fn what_was_stored_is_there_after_opening_again(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", Some(7)).await;
    store.close().await;
    assert_eq!(store.due().await, Err(StoreError::Closed));
    assert_eq!(store.next(1, 1).await, Err(StoreError::Closed));
    let store = ground.open().await;
    assert_eq!(look(&store, &c).await.max_pages, Some(7));
}

async fn a_newer_database_is_refused(ground: &Ground) {
    ground.open().await.close().await;
    ground.execute("INSERT INTO crawlway_schema (step, made_with) VALUES (999, '9.9.9')").await;
    let refused = SqlStore::open(ground.options()).await.expect_err("a newer database");
    assert!(matches!(&refused, StoreError::Invalid { problem } if problem.contains("999")), "{refused}");
}

/// Makes the database one of an earlier release, with what is in it.
async fn back_to_step_11(ground: &Ground) {
    ground.execute("ALTER TABLE hosts DROP COLUMN waiting").await;
    ground.execute("DROP TABLE open_trails").await;
    for column in ["losses", "solo_crashes", "alone"] {
        ground.execute(&format!("ALTER TABLE entries DROP COLUMN {column}")).await;
    }
    ground.execute("DELETE FROM crawlway_schema WHERE step > 11").await;
}

async fn what_waits_in_a_database_of_before_is_counted(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("a", "2"), url("b", "1")]).await.unwrap();
    store.close().await;
    back_to_step_11(ground).await;
    let mut options = ground.options();
    options.policy.most_waiting_of_host = 2;
    let store = SqlStore::open(options).await.expect("it is brought up to date");
    let added = store.add(&c, &[url("a", "3"), url("b", "2")]).await.unwrap();
    assert_eq!(added, [Added::OverBudget, Added::New]);
}

async fn nothing_is_suspect_in_a_database_of_before(ground: &Ground) {
    let store = ground.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("b", "1")]).await.unwrap();
    store.next(1, 1).await.unwrap();
    store.close().await;
    back_to_step_11(ground).await;
    let store = ground.open().await;
    assert_eq!(store.take_back().await.unwrap(), 1);
    let taken = store.next(5, 1).await.unwrap();
    assert_eq!(taken.iter().map(|t| (t.attempt, t.losses)).collect::<Vec<_>>(), [(1, 1), (1, 0)]);
}

async fn trails_that_are_open_in_a_database_of_before_stay_so(ground: &Ground) {
    let store = ground.open().await;
    let entry = |item: &str, at: u64, end: End| TrailEntry {
        item: item.to_owned(),
        subject: None,
        flow: "search".to_owned(),
        stage: "crawl".to_owned(),
        at: Timestamp::from_millis(at),
        end,
        outcome: end.to_string(),
        attempt: 1,
        took_ms: 1,
        worker: "w".to_owned(),
        replays: 0,
        note: None,
        error: None,
    };
    store.record(&[entry("open", 5, End::Passed), entry("done", 5, End::Passed)]).await.unwrap();
    store.record(&[entry("done", 6, End::Done), entry("again", 1, End::Dead)]).await.unwrap();
    store.record(&[entry("again", 2, End::Replayed)]).await.unwrap();
    store.close().await;
    back_to_step_11(ground).await;
    let store = ground.open().await;
    assert_eq!(Trails::open(&store, 10).await.unwrap(), ["again", "open"]);
}

async fn many_open_at_once(ground: &Ground) {
    let tasks: Vec<_> = (0..6).map(|_| tokio::spawn(SqlStore::open(ground.options()))).collect();
    let mut stores = Vec::new();
    for task in tasks {
        stores.push(task.await.expect("no panic").expect("each opens"));
    }
    let c = crawl(&stores[0], "c", None).await;
    look(&stores[5], &c).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_waited_for_and_then_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let place = Place::Postgres(format!("postgres://nobody:secret@{free}/none"));
    let within = Duration::from_millis(700);
    let options = SqlOptions { open_within: within, answer_within: within / 4, ..SqlOptions::new(place) };
    let begun = Instant::now();
    let error = SqlStore::open(options.clone()).await.expect_err("nobody is there");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(!error.to_string().contains("secret") && !format!("{options:?}").contains("secret"), "{error}");
    // It goes when the next pause, 400 ms at most by then, would last too long.
    assert!(begun.elapsed() >= within / 3 && begun.elapsed() < within * 10, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_refused_at_once() {
    let error = SqlStore::open(SqlOptions::new(Place::Postgres("nonsense".to_owned()))).await;
    assert!(matches!(error, Err(StoreError::Invalid { .. })), "{error:?}");
    let missing = Place::Sqlite("/nonexistent/folder/store.db".into());
    let options = SqlOptions { open_within: Duration::from_millis(100), ..SqlOptions::new(missing) };
    let error = SqlStore::open(options).await.expect_err("there is no such folder");
    assert!(error.to_string().contains("folder"), "{error}");
}
