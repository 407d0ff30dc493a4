//! Opening: the schema is migrated once, under concurrency, and a newer database is refused.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    AttemptEnd, Frontier, Group, RateLimitPolicy, RateLimiter, RateLimits, Reservation, StoreError, Ticket,
    Timestamp, Trails, WaitReason, frontier::AddOutcome,
};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use harness::{TestDatabase, crawl, look, trail_entry, url};
use std::time::{Duration, Instant};

on_both!(
    everything_stored_is_there_after_reopening,
    a_newer_database_is_refused,
    many_open_at_once,
    pending_urls_of_an_older_database_are_counted,
    an_older_database_has_no_suspects,
    open_trails_of_an_older_database_stay_open,
);

async fn everything_stored_is_there_after_reopening(database: &TestDatabase) {
    let store = database.open().await;
    let c = crawl(&store, "c", Some(7)).await;
    store.close().await;
    assert_eq!(store.next_due().await, Err(StoreError::Closed));
    assert_eq!(store.claim_next(1, 1).await, Err(StoreError::Closed));
    let store = database.open().await;
    assert_eq!(look(&store, &c).await.max_pages, Some(7));
}

async fn a_newer_database_is_refused(database: &TestDatabase) {
    database.open().await.close().await;
    database.execute("INSERT INTO crawlway_schema (step, made_with) VALUES (999, '9.9.9')").await;
    let refused = SqlStore::open(database.options()).await.expect_err("a newer database");
    assert!(matches!(&refused, StoreError::Invalid { problem } if problem.contains("999")), "{refused}");
}

/// Reverts the schema to that of an earlier release and keeps the data.
async fn back_to_step_11(database: &TestDatabase) {
    database.execute("ALTER TABLE hosts DROP COLUMN waiting").await;
    database.execute("DROP TABLE open_trails").await;
    for table in ["clock", "sessions", "taken", "messages", "dead_letters", "bodies", "pauses", "bindings"] {
        database.execute(&format!("DROP TABLE ledger_{table}")).await;
    }
    for column in ["losses", "solo_crashes", "alone"] {
        database.execute(&format!("ALTER TABLE entries DROP COLUMN {column}")).await;
    }
    back_to_step_16(database).await;
    database.execute("DELETE FROM crawlway_schema WHERE step > 11").await;
}

/// Reverts the rate limiter to its previous version, without its data, and removes later tables.
async fn back_to_step_16(database: &TestDatabase) {
    for table in
        ["tokens", "crawl_requests", "request_feeds", "request_changes", "ingestion_runs", "jobs", "run_jobs"]
    {
        database.execute(&format!("DROP TABLE {table}")).await;
    }
    for table in ["epoch", "groups", "places", "previous"] {
        database.execute(&format!("DROP TABLE IF EXISTS rate_limiter_{table}")).await;
    }
    database.execute("CREATE TABLE gate_life (seen BIGINT NOT NULL)").await;
    let lanes = "name TEXT, blocks BIGINT, since BIGINT, left_until BIGINT, openings BIGINT";
    database.execute(&format!("CREATE TABLE gate_lanes ({lanes})")).await;
    database.execute("DELETE FROM crawlway_schema WHERE step > 16").await;
}

#[tokio::test]
async fn workers_of_the_previous_rate_limiter_are_refused_and_refuse() {
    let database = TestDatabase::postgres().await;
    database.open().await.close().await;
    back_to_step_16(&database).await;
    let seen = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    database.execute(&format!("INSERT INTO gate_life SELECT {seen} - 20000")).await;
    let refused = SqlStore::open(database.options()).await.expect_err("its workers are alive").to_string();
    assert!(
        refused.contains("earlier version") && refused.contains("stop them; this one goes on 30 s later"),
        "{refused}"
    );
    database.execute("UPDATE gate_life SET seen = seen - 11000").await;
    database
        .execute(&format!(
            "INSERT INTO gate_lanes VALUES ('blocked', 2, {seen}, {seen} + 100000, 0), ('idle', NULL, NULL, NULL, NULL)"
        ))
        .await;
    let store = database.open().await;
    let limiter = store.rate_limiter(RateLimitPolicy::default()).await.expect("the rate limiter opens");
    let (group, limits) = (Group::new("blocked").unwrap(), RateLimits::one_at_a_time(Duration::ZERO));
    let reservation = limiter.reserve(&group, Ticket::from_u128(1), &limits).await;
    let Ok(Reservation::NotBefore { at, reason: WaitReason::Backoff }) = reservation else {
        panic!("its back-off goes on: {reservation:?}")
    };
    assert!(at > Timestamp::now() + Duration::from_secs(90), "{at:?}");
    store.close().await;
    database
        .execute("DO $$ BEGIN ASSERT to_regclass('gate_life') IS NULL, 'its tables are gone'; END $$")
        .await;
    database.clear().await;
}

async fn pending_urls_of_an_older_database_are_counted(database: &TestDatabase) {
    let store = database.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("a", "2"), url("b", "1")]).await.unwrap();
    store.close().await;
    back_to_step_11(database).await;
    let mut options = database.options();
    options.policy.max_pending_per_host = 2;
    let store = SqlStore::open(options).await.expect("it is brought up to date");
    let added = store.add(&c, &[url("a", "3"), url("b", "2")]).await.unwrap();
    assert_eq!(added, [AddOutcome::OverBudget, AddOutcome::New]);
}

async fn an_older_database_has_no_suspects(database: &TestDatabase) {
    let store = database.open().await;
    let c = crawl(&store, "c", None).await;
    store.add(&c, &[url("a", "1"), url("b", "1")]).await.unwrap();
    store.claim_next(1, 1).await.unwrap();
    store.close().await;
    back_to_step_11(database).await;
    let store = database.open().await;
    assert_eq!(store.reclaim_all().await.unwrap(), 1);
    let taken = store.claim_next(5, 1).await.unwrap();
    assert_eq!(taken.iter().map(|t| (t.attempt, t.losses)).collect::<Vec<_>>(), [(1, 1), (1, 0)]);
}

async fn open_trails_of_an_older_database_stay_open(database: &TestDatabase) {
    let store = database.open().await;
    let entry = |item, at, end| trail_entry(item, None, at, end);
    store
        .append(&[entry("open", 5, AttemptEnd::Passed), entry("done", 5, AttemptEnd::Passed)])
        .await
        .unwrap();
    store.append(&[entry("done", 6, AttemptEnd::Done), entry("again", 1, AttemptEnd::Dead)]).await.unwrap();
    store.append(&[entry("again", 2, AttemptEnd::Replayed)]).await.unwrap();
    store.close().await;
    back_to_step_11(database).await;
    let store = database.open().await;
    assert_eq!(store.open_items(10).await.unwrap(), ["again", "open"]);
}

async fn many_open_at_once(database: &TestDatabase) {
    let tasks: Vec<_> = (0..6).map(|_| tokio::spawn(SqlStore::open(database.options()))).collect();
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
    let place = Database::Postgres(format!("postgres://user:secret@{free}/none"));
    let within = Duration::from_millis(700);
    let options = SqlOptions { open_timeout: within, call_timeout: within / 4, ..SqlOptions::new(place) };
    let begun = Instant::now();
    let error = SqlStore::open(options.clone()).await.expect_err("no server is there");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(!error.to_string().contains("secret") && !format!("{options:?}").contains("secret"), "{error}");
    // It gives up when the next delay, 400 ms at most by then, would pass the deadline.
    assert!(begun.elapsed() >= within / 3 && begun.elapsed() < within * 10, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_refused_at_once() {
    let error = SqlStore::open(SqlOptions::new(Database::Postgres("nonsense".to_owned()))).await;
    assert!(matches!(error, Err(StoreError::Invalid { .. })), "{error:?}");
    let missing = Database::Sqlite("/nonexistent/folder/store.db".into());
    let options = SqlOptions { open_timeout: Duration::from_millis(100), ..SqlOptions::new(missing) };
    let error = SqlStore::open(options).await.expect_err("there is no such folder");
    assert!(error.to_string().contains("folder"), "{error}");
}
