//! The key index on SQLite: several connections find what each of them stored, and an older database is migrated.
#![allow(clippy::unwrap_used, reason = "a failure of the store fails the test, wherever it is noticed")]

mod harness;

use crawlway_store::{
    AttemptEnd, Frontier, SeenUrls, Timestamp, TrailEntry, Trails,
    frontier::AddOutcome,
    seen::{Claim, ClaimOutcome, SeenUrl},
};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use harness::{TestDatabase, crawl, id, trail_entry, url};
use proptest::prelude::*;
use sqlx::{Connection, Executor, SqliteConnection};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const MAX_HANDLES: usize = 3;
/// Prefix of the item that gets several entries about one URL.
const SAME_ITEM: &str = "same";
const TERM: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
enum Step {
    Add(BTreeSet<u8>),
    Claim(u8),
    Mark(BTreeSet<u8>),
    Release(u8),
    Forget(u8),
    Sweep,
    Record(u8),
    /// For an item that may have entries.
    RecordMore(u8),
    /// All trails.
    Expire,
    Pass(u64),
    /// Closes the connection, and its memory with it.
    Reopen,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let url = 0..24u8;
    let some = || proptest::collection::btree_set(0..24u8, 1..6);
    let step = prop_oneof![
        4 => some().prop_map(Step::Add),
        4 => url.clone().prop_map(Step::Claim),
        3 => some().prop_map(Step::Mark),
        2 => url.clone().prop_map(Step::Release),
        1 => url.clone().prop_map(Step::Forget),
        1 => Just(Step::Sweep),
        3 => url.clone().prop_map(Step::Record),
        3 => url.prop_map(Step::RecordMore),
        1 => Just(Step::Expire),
        1 => (0..50u64).prop_map(Step::Pass),
        1 => Just(Step::Reopen),
    ];
    (0..MAX_HANDLES, step)
}

fn page(number: u8) -> String {
    url("h", &number.to_string()).url
}

/// Expected contents.
#[derive(Default)]
struct Model {
    known: BTreeSet<u8>,
    /// The end, and whether it is a mark rather than a claim.
    seen: BTreeMap<u8, (Timestamp, bool)>,
    /// Items by subject.
    about: BTreeMap<u8, BTreeSet<String>>,
    items: usize,
}

struct Trial {
    database: TestDatabase,
    stores: Vec<SqlStore>,
    model: Model,
    url_cache_capacity: usize,
}

impl Trial {
    async fn open(handles: usize, url_cache_capacity: usize) -> Self {
        let database = TestDatabase::sqlite().await;
        let mut stores = Vec::new();
        for _ in 0..handles {
            stores.push(open(&database, url_cache_capacity).await);
        }
        crawl(&stores[0], "c", None).await;
        Self { database, stores, model: Model::default(), url_cache_capacity }
    }

    async fn take(&mut self, handle: usize, step: &Step) {
        let now = self.database.clock.now();
        let store = self.stores[handle].clone();
        match step {
            Step::Add(pages) => {
                let urls: Vec<_> = pages.iter().map(|page| url("h", &page.to_string())).collect();
                let answers = store.add(&id("c"), &urls).await.unwrap();
                for (page, answer) in pages.iter().zip(answers) {
                    let expected =
                        if self.model.known.insert(*page) { AddOutcome::New } else { AddOutcome::Duplicate };
                    assert_eq!(answer, expected, "adding {page}");
                }
            }
            Step::Claim(number) => {
                let claim = Claim::new(page(*number), "me");
                let claimed = store.claim(&[claim], TERM).await.unwrap();
                match self.model.seen.get(number).filter(|(until, crawled)| *until > now && *crawled) {
                    Some((until, _)) => {
                        let at = Some(*until - 2 * TERM);
                        let seen = ClaimOutcome::Seen { owner: "me".to_owned(), at, until: *until };
                        assert_eq!(claimed, [seen], "claiming {number}");
                    }
                    None => {
                        assert_eq!(claimed, [ClaimOutcome::Granted], "claiming {number}");
                        self.model.seen.insert(*number, (now + TERM, false));
                    }
                }
            }
            Step::Mark(pages) => {
                let seen: Vec<_> = pages
                    .iter()
                    .map(|number| SeenUrl { url: page(*number), owner: "me".to_owned(), ttl: 2 * TERM })
                    .collect();
                store.mark(&seen).await.unwrap();
                self.model.seen.extend(pages.iter().map(|page| (*page, (now + 2 * TERM, true))));
            }
            Step::Release(number) => {
                store.release(&[Claim::new(page(*number), "me")]).await.unwrap();
                if self.model.seen.get(number).is_some_and(|(_, crawled)| !crawled) {
                    self.model.seen.remove(number);
                }
            }
            Step::Forget(number) => {
                let known = self.model.seen.remove(number).is_some_and(|(until, _)| until > now);
                assert_eq!(store.forget(&[page(*number)]).await, Ok(u64::from(known)), "forgetting {number}");
            }
            Step::Sweep => {
                let before = self.model.seen.len();
                self.model.seen.retain(|_, (until, _)| *until > now);
                let gone = (before - self.model.seen.len()) as u64;
                assert_eq!(store.purge_expired(1000).await, Ok(gone), "sweeping");
            }
            Step::Record(number) => {
                self.model.items += 1;
                self.record(&store, *number, self.model.items.to_string()).await;
            }
            Step::RecordMore(number) => self.record(&store, *number, format!("{SAME_ITEM}-{number}")).await,
            Step::Expire => {
                store.expire(now + TERM, 10_000).await.unwrap();
                self.model.about.clear();
            }
            Step::Pass(seconds) => self.database.clock.advance(Duration::from_secs(*seconds)),
            Step::Reopen => {
                store.close().await;
                self.stores[handle] = open(&self.database, self.url_cache_capacity).await;
            }
        }
    }

    async fn record(&mut self, store: &SqlStore, number: u8, item: String) {
        store.append(&[entry(&item, &page(number), self.database.clock.now())]).await.unwrap();
        self.model.about.entry(number).or_default().insert(item);
    }

    /// Every connection finds all of it, and nothing is stored twice.
    async fn check(&self) {
        let Database::Sqlite(file) = self.database.options().database else { panic!("a file") };
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let subjects: i64 =
            sqlx::query_scalar("SELECT count(*) FROM subjects").fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        assert_eq!(subjects as usize, self.model.about.values().map(BTreeSet::len).sum::<usize>());
        for store in &self.stores {
            for number in 0..24 {
                let found = store.find(&page(number)).await.unwrap();
                assert_eq!(found.len(), usize::from(self.model.known.contains(&number)), "finding {number}");
                let trails = store.of_subject(&page(number), 1000).await.unwrap();
                let items = self.model.about.get(&number).map_or(0, BTreeSet::len);
                assert_eq!(trails.len(), items, "the trails about {number}");
                assert!(trails.iter().flatten().all(|entry| entry.subject == Some(page(number))));
            }
        }
    }
}

async fn open(database: &TestDatabase, url_cache_capacity: usize) -> SqlStore {
    let options = SqlOptions { url_cache_capacity, key_batch: 4, connections: 1, ..database.options() };
    SqlStore::open(options).await.unwrap()
}

fn entry(item: &str, subject: &str, at: Timestamp) -> TrailEntry {
    trail_entry(item, Some(subject), at.as_millis(), AttemptEnd::Done)
}

#[tokio::test]
async fn what_another_connection_removed_is_stored_again() {
    let database = TestDatabase::sqlite().await;
    let (ours, theirs) = (open(&database, 1 << 10).await, open(&database, 1 << 10).await);
    let now = database.clock.now();
    let entries = [entry("item", "https://h/", now)];
    ours.append(&entries).await.unwrap();
    assert_eq!(theirs.expire(now + TERM, 10).await, Ok(1));
    ours.append(&entries).await.unwrap();
    assert_eq!(ours.of_item("item").await, Ok(entries.to_vec()));
    assert_eq!(theirs.of_subject("https://h/", 10).await, Ok(vec![entries.to_vec()]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_connection_finds_what_another_stored(
        handles in 1..=MAX_HANDLES,
        url_cache_capacity in prop_oneof![Just(0), Just(1 << 10)],
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut trial = Trial::open(handles, url_cache_capacity).await;
            for (handle, step) in &steps {
                trial.take(*handle % handles, step).await;
            }
            trial.check().await;
        });
    }
}

/// Each session adds fewer keys than a batch.
#[tokio::test]
async fn many_short_sessions_move_their_keys_too() {
    let database = TestDatabase::sqlite().await;
    for life in 0..60 {
        let store = open(&database, 0).await;
        crawl(&store, "c", None).await;
        let urls: Vec<_> = (0..3).map(|n| url("h", &format!("{life}-{n}"))).collect();
        store.add(&id("c"), &urls).await.unwrap();
        store.close().await;
    }
    let Database::Sqlite(path) = &database.place else { panic!("it is a file") };
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    let moved: i64 =
        sqlx::query_scalar("SELECT count(*) FROM keys").fetch_one(&mut connection).await.unwrap();
    // All but those of the last sixteen batches of four, since ranges take turns.
    assert!((180 - 16 * 4..=180).contains(&moved), "{moved} of 180 keys are in the file");
    let furthest: i64 =
        sqlx::query_scalar("SELECT min(entries) FROM keys_upto").fetch_one(&mut connection).await.unwrap();
    assert!(furthest >= 180 - 17 * 4, "an opening reads all rows from {furthest} of 180 on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_call_leaves_the_keys_as_they_were() {
    let database = TestDatabase::sqlite().await;
    let store = open(&database, 0).await;
    crawl(&store, "c", None).await;
    for round in 0..150u64 {
        let urls: Vec<_> = (0..5).map(|n| url("h", &format!("{round}-{n}"))).collect();
        let limit = Duration::from_micros(round * 17 % 1500);
        let first = tokio::time::timeout(limit, store.add(&id("c"), &urls)).await;
        let answers = store.add(&id("c"), &urls).await.unwrap();
        let known = answers.iter().filter(|answer| **answer == AddOutcome::Duplicate).count();
        // All or nothing; and all, if the call returned.
        assert!(known == 5 || (known == 0 && first.is_err()), "round {round}: {first:?}, then {answers:?}");
        let _ = tokio::time::timeout(limit / 2, store.find(&urls[0].url)).await;
        for url in &urls {
            assert_eq!(store.find(&url.url).await.unwrap().len(), 1, "round {round}: {}", url.url);
        }
    }
}

/// A database from before the key index.
#[tokio::test]
async fn an_older_database_is_migrated() {
    let database = TestDatabase::sqlite().await;
    let Database::Sqlite(path) = &database.place else { panic!("it is a file") };
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut old = SqliteConnection::connect_with(&options).await.unwrap();
    for text in [include_str!("../src/schema/0001.sql"), include_str!("../src/schema/0002.sql")] {
        let words = [("{number}", "INTEGER PRIMARY KEY"), ("{bytes}", "BLOB"), ("{by key}", "WITHOUT ROWID")];
        let text = words.iter().fold(text.to_owned(), |text, (name, word)| text.replace(name, word));
        old.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(text))).await.unwrap();
    }
    // `8198d1ba…` is the hash of the URL.
    let rows = "
        CREATE TABLE crawlway_schema (step BIGINT PRIMARY KEY, made_with TEXT NOT NULL);
        INSERT INTO crawlway_schema VALUES (1, ''), (2, ''), (3, '');
        INSERT INTO crawls VALUES (1, 'c', '{}', NULL, 0, 0, NULL, 1, 0, 0, 0, 0);
        INSERT INTO hosts VALUES (1, 1, 'example.org', 0, 0, 0);
        INSERT INTO entries (num, crawl, host, hash, added_at, due, taking, state, attempts, depth, chain, insist,
                             fetched, item, url)
        VALUES (7, 1, 1, x'8198d1bac40a1033653a78e48800cefc', 0, 0, 0, 0, 0, 0, 0, 0, 0, 'i', 'https://example.org/');
        INSERT INTO seen VALUES (x'8198d1bac40a1033653a78e48800cefc', 9999999999999, 1, 'i');
        INSERT INTO subjects VALUES (5, x'8198d1bac40a1033653a78e48800cefc', 'i', 'https://example.org/');
        INSERT INTO trails VALUES (3, 0, 0, 1, 0, x'8198d1bac40a1033653a78e48800cefc', 'i', 'search', 'crawl', 'published',
                                   'w', '3 links'),
                                  (4, 1, 0, 1, 5, x'8198d1bac40a1033653a78e48800cefc', 'i', 'search', 'index', 'dead',
                                   'w', 'no title');";
    old.execute(sqlx::raw_sql(rows)).await.unwrap();
    old.close().await.unwrap();

    let store = open(&database, 0).await;
    let known = "https://example.org/";
    let mut again = url("example.org", "");
    again.url = known.to_owned();
    assert_eq!(store.add(&id("c"), &[again]).await.unwrap(), [AddOutcome::Duplicate]);
    assert_eq!(store.find(known).await.unwrap()[0].item, "i");
    let claim = Claim::new(known, "other");
    assert!(matches!(store.claim(&[claim], TERM).await.unwrap()[..], [ClaimOutcome::Seen { .. }]));
    let trails = store.of_subject(known, 9).await.unwrap();
    assert_eq!(trails[0][0].subject.as_deref(), Some(known));
    // It had one column for notes and for errors.
    let notes: Vec<_> =
        trails[0].iter().map(|entry| (entry.note.as_deref(), entry.error.as_deref())).collect();
    assert_eq!(notes, [(Some("3 links"), None), (None, Some("no title"))]);
    assert_eq!(store.add(&id("c"), &[url("example.org", "new")]).await.unwrap(), [AddOutcome::New]);
}
