//! Ledger of one test, on SQLite.

use crawlway_store::{Ledger, LedgerPolicy};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;

/// Ledger of one test, shared by its processes.
#[derive(Debug)]
pub struct TestLedger {
    /// The ledger, with short session leases.
    pub ledger: Arc<dyn Ledger>,
    _folder: TempDir,
}

impl TestLedger {
    /// Opens a new one.
    pub async fn open() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = Database::Sqlite(folder.path().join("ledger.db"));
        let store = SqlStore::open(SqlOptions::new(database)).await.expect("the store opens");
        let policy = LedgerPolicy { session_lease: Duration::from_secs(2), ..LedgerPolicy::default() };
        Self { ledger: Arc::new(store.ledger(policy).expect("the policy is valid")), _folder: folder }
    }
}
