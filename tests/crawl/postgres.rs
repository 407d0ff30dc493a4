//! The same crawl with its records in PostgreSQL.

use crate::lab::Lab;
use crawlway_demo_web::Plan;
use crawlway_testkit::servers;
use sqlx::{Connection, Executor, PgConnection};
use std::time::Duration;

#[test]
fn a_crawl_keeps_its_records_in_postgresql() {
    let mut lab = Lab::new(Plan::crash_of(200), Duration::from_millis(2));
    let server = servers::postgres();
    let name = format!("crawl_{}", std::process::id());
    let make = async |statement: String| {
        let mut connection = PgConnection::connect(&server).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
        connection.close().await.unwrap();
    };
    lab.runtime.block_on(make(format!("CREATE DATABASE {name}")));
    let (address, _) = server.rsplit_once('/').unwrap();
    lab.postgres = Some(format!("{address}/{name}"));
    lab.crawl_to_the_end();
    assert!(!lab.data().join("records.db").exists());
    lab.check();
    lab.runtime.block_on(make(format!("DROP DATABASE {name} WITH (FORCE)")));
}
