//! Harness of the tests: a database for each test, dropped after it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use crawlway_store::UrlRecords;
use crawlway_store_conformance::{Backend, Harness};
use crawlway_store_mongodb::{MongoOptions, MongoStore};
use mongodb::{Client, Database};
use std::sync::Arc;

/// Options with a database of its own.
pub(crate) fn options(url: &str) -> MongoOptions {
    MongoOptions { database: format!("t_{}", uuid::Uuid::now_v7().simple()), ..MongoOptions::new(url) }
}

/// The database, as seen by other programs.
pub(crate) async fn database(options: &MongoOptions) -> Database {
    let client = Client::with_uri_str(&options.url).await.expect("an address");
    client.database(&options.database)
}

pub(crate) struct MongoHarness {
    options: MongoOptions,
    open: Vec<MongoStore>,
}

impl MongoHarness {
    pub(crate) fn new() -> Self {
        Self { options: options(&crawlway_testkit::servers::mongodb()), open: vec![] }
    }

    /// A handle with connections of its own.
    async fn handle(&mut self) -> Arc<dyn UrlRecords> {
        let store = MongoStore::open(self.options.clone()).await.expect("the store opens");
        self.open.push(store.clone());
        Arc::new(store)
    }
}

impl Drop for MongoHarness {
    /// Drops the database, also after a failed case, on a runtime of its own, since the runtime of the case cannot block.
    fn drop(&mut self) {
        let options = self.options.clone();
        let cleared = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                database(&options).await.drop().await.expect("the database is dropped");
            });
        });
        assert!(cleared.join().is_ok() || std::thread::panicking(), "the database is dropped with its case");
    }
}

impl Backend for MongoHarness {}

#[async_trait::async_trait]
impl Harness<dyn UrlRecords> for MongoHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn UrlRecords> {
        self.handle().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn UrlRecords>> {
        Some(self.handle().await)
    }

    async fn reopen(&mut self) -> Arc<dyn UrlRecords> {
        for store in self.open.drain(..) {
            store.close().await;
        }
        self.handle().await
    }
}
