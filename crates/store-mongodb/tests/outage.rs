//! Outages of the server: calls fail fast while it is unavailable, and work again afterwards.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    StoreError, Timestamp, UrlRecords,
    inventory::{
        Attempt, BeginOutcome, EndOutcome, FetchedContent, MAX_ATTEMPTS, RecordId, RecordQuery,
        RecordRequest, RecordStatus,
    },
};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use crawlway_testkit::{
    private_mongodb::PrivateMongoDb,
    proxy::{Mode, Proxy},
};
use harness::{database, options};
use std::time::{Duration, Instant};

fn request(number: u64) -> RecordRequest {
    RecordRequest {
        url: "https://a.example/".to_owned(),
        message_id: format!("m-{number}"),
        requested_at: Timestamp::from_millis(number),
    }
}

fn now() -> Timestamp {
    Timestamp::now()
}

/// Expects every call to fail as unavailable, and within a bounded time.
async fn calls_fail(store: &MongoStore) {
    let id = RecordId::of_url("https://a.example/");
    let attempt = Attempt { id, message_id: "m-1".to_owned(), number: 1 };
    let (request, fetched, wanted) =
        (request(1), FetchedContent::default(), RecordQuery { limit: 1, ..RecordQuery::default() });
    for _ in 0..3 {
        let begun = Instant::now();
        let (begin, complete, fail, get, list, counts, ready) = tokio::join!(
            store.begin(&request, now()),
            store.complete(&attempt, &fetched, now()),
            store.fail(&attempt, "no", MAX_ATTEMPTS, now()),
            store.get(id),
            store.list(&wanted),
            store.counts(),
            store.ready(),
        );
        let answers = [
            begin.unwrap_err(),
            complete.unwrap_err(),
            fail.unwrap_err(),
            get.unwrap_err(),
            list.unwrap_err(),
            counts.unwrap_err(),
            ready.unwrap_err(),
        ];
        for answer in answers {
            assert!(matches!(answer, StoreError::Unavailable { .. }), "{answer:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the calls took {:?}", begun.elapsed());
    }
}

async fn wait_until_available(store: &MongoStore) {
    let begun = Instant::now();
    while let Err(error) = store.ready().await {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the server is available, and the store has not reconnected: {error}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn completes(store: &MongoStore, number: u64) {
    let begun = store.begin(&request(number), now()).await.unwrap();
    let BeginOutcome::Started { attempt, .. } = begun else { panic!("{number} is newer: {begun:?}") };
    let ended = store.complete(&attempt, &FetchedContent::default(), now()).await.unwrap();
    assert_eq!(ended, EndOutcome::Recorded { status: RecordStatus::Completed, retry_count: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_reconnects_after_a_kill() {
    let mut mongo = PrivateMongoDb::start();
    let options = MongoOptions { call_timeout: Duration::from_secs(1), ..options(&mongo.url()) };
    let store = MongoStore::open(options).await.unwrap();
    for round in 1..3 {
        completes(&store, round * 10).await;
        mongo.kill();
        calls_fail(&store).await;
        mongo.restart();
        wait_until_available(&store).await;
        let begun = store.begin(&request(round * 10), now()).await.unwrap();
        assert_eq!(
            begun,
            BeginOutcome::AlreadyFinished { status: RecordStatus::Completed, retry_count: 0 },
            "nothing was lost"
        );
    }
}

async fn survives(mode: Mode) {
    let server = crawlway_testkit::servers::mongodb();
    let place = server.trim_start_matches("mongodb://").split('/').next().unwrap().to_owned();
    let proxy = Proxy::in_front_of(place.clone()).await;
    let direct = options(&server);
    let options = MongoOptions {
        url: server.replace(&place, &proxy.address().to_string()),
        call_timeout: Duration::from_millis(500),
        ..direct.clone()
    };
    let store = MongoStore::open(options).await.unwrap();
    for round in 1..3 {
        completes(&store, round).await;
        proxy.set(mode);
        // Data in transit through the proxy may still arrive.
        let begun = Instant::now();
        while store.ready().await.is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the proxy passes everything");
        }
        calls_fail(&store).await;
        proxy.set(Mode::Up);
        wait_until_available(&store).await;
    }
    completes(&store, 9).await;
    database(&direct).await.drop().await.unwrap();
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
async fn opening_waits_for_the_server() {
    let mut mongo = PrivateMongoDb::start();
    mongo.kill();
    let good = MongoOptions { call_timeout: Duration::from_secs(2), ..options(&mongo.url()) };
    let brief = MongoOptions {
        open_timeout: Duration::from_millis(300),
        call_timeout: Duration::from_millis(100),
        ..good.clone()
    };
    let error = MongoStore::open(brief).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable { detail } if detail.contains("is it running?")),
        "{error:?}"
    );
    let opening = tokio::spawn(MongoStore::open(good));
    tokio::time::sleep(Duration::from_millis(200)).await;
    mongo.restart();
    completes(&opening.await.unwrap().unwrap(), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_options_and_accounts_are_refused_at_once() {
    for (url, problem) in [
        ("https://127.0.0.1/", "the MongoDB URL is invalid"),
        ("mongodb://", "the MongoDB URL is invalid"),
        ("mongodb://user:secret@127.0.0.1:1/?unknownOption=1&tls=maybe", "the MongoDB URL is invalid"),
    ] {
        let error = MongoStore::open(options(url)).await.unwrap_err();
        let StoreError::Invalid { problem: text } = error else { panic!("{url} must be refused: {error:?}") };
        assert!(text.contains(problem) && !text.contains("secret"), "{text}");
    }
    // An unknown account.
    let server = crawlway_testkit::servers::mongodb();
    let error =
        MongoStore::open(options(&server.replace("mongodb://", "mongodb://user:secret@"))).await.unwrap_err();
    let StoreError::Invalid { problem } = error else { panic!("the account is unknown: {error:?}") };
    assert!(problem.contains("refuses the account") && !problem.contains("secret"), "{problem}");
}
