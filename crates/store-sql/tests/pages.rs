//! The page index on PostgreSQL beyond its suites: sizes, concurrent writers, use of the GIN index.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    IndexedPage, PageIndex, SeenUrls, StoreError, Timestamp,
    pages::{SearchRequest, precedence::TOMBSTONE_RETENTION},
};
use crawlway_store_conformance::search::page;
use crawlway_store_sql::{Database, SqlPageIndex};
use harness::TestDatabase;
use sqlx::{Connection, PgConnection, Row};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Barrier;

async fn total(pages: &SqlPageIndex, query: &str) -> u64 {
    pages.search(&SearchRequest::new(query)).await.unwrap_or_else(|error| panic!("{query}: {error}")).total
}

#[tokio::test]
async fn sqlite_has_no_page_index() {
    let database = TestDatabase::sqlite().await;
    let refused = database.open().await.page_index().expect_err("SQLite");
    assert!(
        matches!(&refused, StoreError::Invalid { problem } if problem.contains("PostgreSQL")),
        "{refused}"
    );
}

#[tokio::test]
async fn closing_the_pages_leaves_the_store_open() {
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let pages = store.page_index().unwrap();
    pages.write([page("http://a.org/1", "x", "word")].into()).await.unwrap();
    pages.close().await.unwrap();
    pages.close().await.unwrap();
    assert_eq!(pages.count().await, Err(StoreError::Closed));
    assert_eq!(pages.write([].into()).await, Err(StoreError::Closed));
    assert_eq!(store.page_index().unwrap().count().await, Ok(1), "others go on");
    store.claim(&[], Duration::from_secs(1)).await.unwrap();
    database.clear().await;
}

/// More bytes and positions than a `tsvector` takes.
#[tokio::test]
async fn a_page_of_megabytes_is_found_by_every_word() {
    let database = TestDatabase::postgres().await;
    let pages = database.open().await.page_index().unwrap();
    let mut text = "beginning ".to_owned();
    for number in 0..60_000 {
        text.push_str(&format!("the number{number} 東京 "));
    }
    text.push_str("very last words");
    assert!(text.len() > 1 << 20, "{}", text.len());
    let big = page("http://a.org/big", &"a long title ".repeat(3_000), &text);
    let other = page("http://a.org/other", "x", "beginning of another page, number59999 with words");
    pages.write([big.clone(), other].into()).await.unwrap();
    for (query, expected) in [
        ("beginning", 2),
        ("beginning last", 1),
        ("\"number30000 東京 the number30001\"", 1),
        ("\"the number59999\"", 1),
        ("\"number30000 number30001\"", 0),
        ("\"very last words\"", 1),
        ("\"last very\"", 0),
        ("京 the", 1),
        ("京東", 0),
        ("title:\"long title a\"", 1),
        ("number59999 -last", 1),
        ("number60000", 0),
    ] {
        assert_eq!(total(&pages, query).await, expected, "{query}");
    }
    let found = pages.search(&SearchRequest::new("number59999 last")).await.unwrap();
    assert!(found.hits[0].snippet.contains("<mark>last</mark>"), "{}", found.hits[0].snippet);
    assert_eq!(pages.get(&big.url).await.unwrap().unwrap().text.len(), text.len());
    database.clear().await;
}

#[tokio::test]
async fn a_nul_becomes_the_replacement_character() {
    let database = TestDatabase::postgres().await;
    let pages = database.open().await.page_index().unwrap();
    let odd = IndexedPage {
        item: "i\0".into(),
        host: "a.\0org".into(),
        description: Some("\0".into()),
        ..page("http://a.org/\0", "be\0fore", "af\0ter")
    };
    pages.write([odd.clone(), page("http://a.org/2", "x", "y")].into()).await.unwrap();
    let kept = pages.get(&odd.url).await.unwrap().unwrap();
    assert_eq!((kept.title.as_str(), kept.text.as_str()), ("be\u{fffd}fore", "af\u{fffd}ter"));
    assert_eq!(total(&pages, "\"be fore\" \"af ter\"").await, 1);
    assert_eq!(pages.remove(&[odd.url], None).await, Ok(1));
    database.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_the_same_pages_wait_for_each_other() {
    const WRITERS: usize = 6;
    let database = TestDatabase::postgres().await;
    let (mut writers, begun) = (Vec::new(), Timestamp::now());
    let last_round = Arc::new(Barrier::new(WRITERS));
    for writer in 0..WRITERS {
        let (pages, last_round) = (Arc::new(database.open().await.page_index().unwrap()), last_round.clone());
        writers.push(tokio::spawn(async move {
            for round in 0..8 {
                let is_last = round == 7;
                if is_last {
                    last_round.wait().await;
                }
                let of = |number: usize| IndexedPage {
                    // The last ones are later than every removal.
                    crawled_at: if is_last { begun + Duration::from_secs(240) } else { Timestamp::now() },
                    ..page(&format!("http://a.org/{number}"), "x", &format!("writer{writer} round{round}"))
                };
                // Each in an order of its own, and some of them again.
                let mut batch: Vec<IndexedPage> = (0..40).map(|n| of((n * 7 + writer * 11) % 40)).collect();
                batch.extend((0..5).map(of));
                if (round + writer) % 3 == 0 && !is_last {
                    let urls: Vec<String> = batch.iter().rev().take(9).map(|page| page.url.clone()).collect();
                    pages.remove(&urls, None).await.unwrap();
                }
                pages.write(batch.into()).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let pages = database.open().await.page_index().unwrap();
    assert_eq!(pages.count().await, Ok(40));
    let mut counted = 0;
    for writer in 0..WRITERS {
        counted += total(&pages, &format!("\"writer{writer} round7\"")).await;
    }
    assert_eq!(counted, 40, "each is as one writer left it");
    database.clear().await;
}

#[tokio::test]
async fn tombstones_are_swept_after_their_retention() {
    let database = TestDatabase::postgres().await;
    let pages = database.open().await.page_index().unwrap();
    let old = page("http://a.org/1", "x", "word");
    pages.write([old.clone(), page("http://a.org/2", "x", "word")].into()).await.unwrap();
    assert_eq!(pages.remove(std::slice::from_ref(&old.url), None).await, Ok(1));
    pages.write([old.clone()].into()).await.unwrap();
    assert_eq!(pages.get(&old.url).await, Ok(None), "its tombstone keeps it out");
    let month = i64::try_from(TOMBSTONE_RETENTION.as_millis()).unwrap() + 1000;
    database.execute(&format!("UPDATE pages SET crawled_at = crawled_at - {month} WHERE removed > 0")).await;
    // A process sweeps with its first removal, and then once per interval.
    let another = database.open().await.page_index().unwrap();
    assert_eq!(another.remove(&["http://a.org/3".to_owned()], None).await, Ok(0));
    pages.write([old.clone()].into()).await.unwrap();
    assert_eq!(pages.get(&old.url).await, Ok(Some(old)), "it is past its retention");
    assert_eq!(pages.count().await, Ok(2));
    database.clear().await;
}

/// Statistics of the server: scans of the GIN index, entries read from other indexes, sequential scans.
async fn uses(connection: &mut PgConnection) -> (i64, i64, i64) {
    let row = sqlx::query(
        "SELECT (sum(idx_scan) FILTER (WHERE indexrelname = 'pages_words'))::bigint,
                (sum(idx_tup_read) FILTER (WHERE indexrelname <> 'pages_words'))::bigint,
                (SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'pages' AND schemaname = current_schema())
         FROM pg_stat_user_indexes WHERE relname = 'pages' AND schemaname = current_schema()",
    );
    let row = row.fetch_one(connection).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

#[tokio::test]
async fn words_are_found_by_the_index_and_not_by_reading_all_pages() {
    const MANY: usize = 10_000;
    let database = TestDatabase::postgres().await;
    let store = database.open().await;
    let pages = store.page_index().unwrap();
    let all: Vec<IndexedPage> = (0..MANY)
        .map(|n| page(&format!("http://h{}.org/{n}", n % 100), &format!("title{n}"), &text(n)))
        .collect();
    for part in all.chunks(500) {
        pages.write(part.into()).await.unwrap();
    }
    store.close().await;
    database.execute("ANALYZE pages").await;
    let Database::Postgres(address) = &database.place else { unreachable!("it is PostgreSQL") };
    let mut connection = PgConnection::connect(address).await.unwrap();
    // The statistics of the writes arrive late.
    let mut before = uses(&mut connection).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let settled = async |before: &mut (i64, i64, i64), connection: &mut PgConnection| loop {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let now = uses(connection).await;
        if now == *before || Instant::now() > deadline {
            return;
        }
        *before = now;
    };
    settled(&mut before, &mut connection).await;
    let store = database.open().await;
    let pages = store.page_index().unwrap();
    let queries = [
        ("title77", 1),
        ("own4321", 1),
        ("\"own4321 words\"", 1),
        ("own99 -common", 0),
        ("title5 host:h5.org", 1),
        ("title:title8", 1),
    ];
    for (query, expected) in queries {
        assert_eq!(total(&pages, query).await, expected, "{query}");
    }
    store.close().await;
    let mut after = uses(&mut connection).await;
    while after.0 < before.0 + queries.len() as i64 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(200)).await;
        after = uses(&mut connection).await;
    }
    assert!(after.0 >= before.0 + queries.len() as i64, "the index of words: {before:?}, {after:?}");
    assert!(after.1 < before.1 + MANY as i64 / 10, "few pages are read: {before:?}, {after:?}");
    assert_eq!(after.2, before.2, "no scan of the whole table");
    database.clear().await;
}

fn text(number: usize) -> String {
    format!("own{number} words and common ones that stand in every page, number {}", number % 10)
}
