//! What all tests share: a database of their own on either backend, and children to be killed.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_store::{
    AttemptEnd, Frontier, FrontierPolicy, TrailEntry,
    frontier::{Crawl, CrawlId, NewCrawl, NewUrl},
};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use sqlx::{Connection, Executor, PgConnection};
use std::{sync::Arc, time::Duration};

pub(crate) const POLICY: FrontierPolicy = FrontierPolicy {
    lease: Duration::from_secs(60),
    max_attempts: 3,
    max_solo_crashes: 3,
    max_pending: 1_000_000,
    max_pending_per_host: 1_000_000,
};

/// A database for one test; [`clear`](Self::clear) deletes it.
pub(crate) struct TestDatabase {
    pub(crate) place: Database,
    pub(crate) clock: Arc<ManualClock>,
    folder: Option<tempfile::TempDir>,
    schema: Option<String>,
}

impl TestDatabase {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = Database::Sqlite(folder.path().join("store.db"));
        Self { place, clock: ManualClock::at(Timestamp::now()), folder: Some(folder), schema: None }
    }

    pub(crate) async fn postgres() -> Self {
        let server = crawlway_testkit::servers::postgres();
        let schema = format!("t_{}", uuid::Uuid::now_v7().simple());
        let mut connection = PgConnection::connect(&server).await.expect("the server answers");
        let make = format!("CREATE SCHEMA {schema}");
        connection.execute(sqlx::AssertSqlSafe(make)).await.expect("a schema");
        let place = Database::Postgres(within(&server, &schema));
        Self { place, clock: ManualClock::at(Timestamp::now()), folder: None, schema: Some(schema) }
    }

    pub(crate) fn options(&self) -> SqlOptions {
        let clock = Clock::Manual(self.clock.clone());
        SqlOptions { policy: POLICY, clock, connections: 4, ..SqlOptions::new(self.place.clone()) }
    }

    pub(crate) async fn open(&self) -> SqlStore {
        SqlStore::open(self.options()).await.expect("the store opens")
    }

    /// Runs statements on the database itself.
    pub(crate) async fn execute(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match &self.place {
            Database::Sqlite(path) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
                let mut connection = sqlx::SqliteConnection::connect_with(&options).await.expect("the file");
                connection.execute(sql).await.expect("a statement that works");
            }
            Database::Postgres(address) => {
                let mut connection = PgConnection::connect(address).await.expect("the server answers");
                connection.execute(sql).await.expect("a statement that works");
            }
        }
    }

    pub(crate) async fn clear(self) {
        let Some(schema) = &self.schema else { return };
        let mut connection =
            PgConnection::connect(&crawlway_testkit::servers::postgres()).await.expect("the server answers");
        let drop = format!("DROP SCHEMA {schema} CASCADE");
        connection.execute(sqlx::AssertSqlSafe(drop)).await.expect("the schema goes");
    }
}

/// The address of a schema on a server.
pub(crate) fn within(server: &str, schema: &str) -> String {
    let sign = if server.contains('?') { '&' } else { '?' };
    format!("{server}{sign}options=-csearch_path%3D{schema}")
}

pub(crate) fn id(id: &str) -> CrawlId {
    CrawlId::new(id).expect("an id")
}

pub(crate) async fn crawl(store: &SqlStore, name: &str, max_pages: Option<u64>) -> CrawlId {
    let new = NewCrawl { id: id(name), definition: "{}".to_owned(), max_pages };
    store.open_crawl(&new).await.expect("a crawl").0.id
}

pub(crate) async fn look(store: &SqlStore, id: &CrawlId) -> Crawl {
    store.crawl(id).await.expect("an answer").expect("the crawl")
}

pub(crate) fn url(host: &str, path: &str) -> NewUrl {
    NewUrl {
        item: uuid::Uuid::now_v7().to_string(),
        url: format!("https://{host}/{path}"),
        host: host.to_owned(),
        depth: 0,
        chain: 0,
        found_on: None,
        ignore_canonical: false,
        ignore_limit: false,
        budget: None,
    }
}

pub(crate) fn trail_entry(item: &str, subject: Option<&str>, at: u64, end: AttemptEnd) -> TrailEntry {
    TrailEntry {
        item: item.to_owned(),
        subject: subject.map(str::to_owned),
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
    }
}

/// `main` of a test that starts itself as a child, which libtest cannot do. The child gets the arguments after `--child`.
#[allow(clippy::print_stdout, reason = "it prints what libtest would")]
pub(crate) fn run_or_be_child(name: &str, test: impl AsyncFnOnce(), child: impl AsyncFnOnce(&[String])) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--child") => runtime.block_on(child(&arguments[2..])),
        Some("--list") => {}
        _ => {
            println!("\nrunning 1 test");
            runtime.block_on(test());
            println!("test {name} ... ok");
            println!("\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        }
    }
}

/// This program as a child with these arguments.
pub(crate) fn child(arguments: &[&str]) -> std::process::Command {
    let mut child = std::process::Command::new(std::env::current_exe().expect("the path of this program"));
    child.arg("--child").args(arguments);
    child
}

/// Runs each named case on both backends.
#[macro_export]
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = super::harness::TestDatabase::sqlite().await;
                super::$case(&database).await;
                database.clear().await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = super::harness::TestDatabase::postgres().await;
                super::$case(&database).await;
                database.clear().await;
            })*
        }
    };
}
