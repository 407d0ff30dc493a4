//! A database for one test, on either backend, gone after it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_store::{
    Frontier, FrontierPolicy,
    frontier::{Crawl, CrawlId, NewCrawl, NewUrl},
};
use crawlway_store_sql::{Place, SqlOptions, SqlStore};
use sqlx::{Connection, Executor, PgConnection};
use std::{sync::Arc, time::Duration};

pub(crate) const POLICY: FrontierPolicy = FrontierPolicy {
    lease: Duration::from_secs(60),
    max_attempts: 3,
    max_solo_crashes: 3,
    most_waiting: 1_000_000,
    most_waiting_of_host: 1_000_000,
};

/// A place for a database of its own.
pub(crate) struct Ground {
    pub(crate) place: Place,
    pub(crate) clock: Arc<ManualClock>,
    folder: Option<tempfile::TempDir>,
    schema: Option<String>,
}

impl Ground {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = Place::Sqlite(folder.path().join("store.db"));
        Self { place, clock: ManualClock::at(Timestamp::now()), folder: Some(folder), schema: None }
    }

    pub(crate) async fn postgres() -> Self {
        let server = crawlway_testkit::servers::postgres();
        let schema = format!("t_{}", uuid::Uuid::now_v7().simple());
        let mut connection = PgConnection::connect(&server).await.expect("the server answers");
        let make = format!("CREATE SCHEMA {schema}");
        connection.execute(sqlx::AssertSqlSafe(make)).await.expect("a schema");
        let place = Place::Postgres(within(&server, &schema));
        Self { place, clock: ManualClock::at(Timestamp::now()), folder: None, schema: Some(schema) }
    }

    pub(crate) fn options(&self) -> SqlOptions {
        let clock = Clock::Manual(self.clock.clone());
        SqlOptions { policy: POLICY, clock, connections: 4, ..SqlOptions::new(self.place.clone()) }
    }

    pub(crate) async fn open(&self) -> SqlStore {
        SqlStore::open(self.options()).await.expect("the store opens")
    }

    /// Statements on the database itself.
    pub(crate) async fn execute(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match &self.place {
            Place::Sqlite(path) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
                let mut connection = sqlx::SqliteConnection::connect_with(&options).await.expect("the file");
                connection.execute(sql).await.expect("a statement that works");
            }
            Place::Postgres(address) => {
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
        insist: false,
        in_any_case: false,
        budget: None,
    }
}

/// Runs each named case on both backends.
#[macro_export]
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let ground = super::harness::Ground::sqlite().await;
                super::$case(&ground).await;
                ground.clear().await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let ground = super::harness::Ground::postgres().await;
                super::$case(&ground).await;
                ground.clear().await;
            })*
        }
    };
}
