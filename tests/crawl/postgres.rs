//! A crawl with its records in PostgreSQL, and private databases for the other tests.

use crate::lab::Lab;
use crawlway_demo_web::Plan;
use crawlway_testkit::servers;
use sqlx::{Connection, Executor, PgConnection};
use std::time::Duration;

#[test]
fn a_crawl_keeps_its_records_in_postgresql() {
    let mut lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let database = Database::new("crawl");
    lab.postgres = Some(database.url.clone());
    lab.crawl_to_end();
    assert!(!lab.data().join("records.db").exists());
    lab.check();
    database.drop();
}

/// A private database of one test.
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
}

impl Database {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("{name}_{}", std::process::id());
        run(format!("CREATE DATABASE {name}"));
        let server = servers::postgres();
        let (address, _) = server.rsplit_once('/').unwrap();
        Self { url: format!("{address}/{name}"), name }
    }

    pub(crate) fn drop(self) {
        run(format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn run(statement: String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(&servers::postgres()).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
        connection.close().await.unwrap();
    });
}
