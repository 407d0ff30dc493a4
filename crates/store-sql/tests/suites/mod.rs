//! Harness of the conformance suites: opens all contracts on a database of its own.

use super::harness::TestDatabase;
use crawlway_store::{
    Frontier, FrontierPolicy, Ledger, LedgerPolicy, ManualClock, PageIndex, RateLimitPolicy, RateLimiter,
    RequestPolicy, RequestStore, RunStore, SeenUrls, Tokens, Trails, UrlRecords, rate_limiter::MAX_MIN_DELAY,
};
use crawlway_store_conformance::{Backend, Contract, Harness};
use crawlway_store_sql::{SqlOptions, SqlStore};
use std::sync::Arc;

#[derive(Clone, Copy)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

pub(crate) struct SqlHarness {
    /// Taken when the harness is dropped.
    database: Option<TestDatabase>,
    policy: FrontierPolicy,
    gate_policy: RateLimitPolicy,
    ledger_policy: LedgerPolicy,
    request_policy: RequestPolicy,
    open: Vec<SqlStore>,
}

impl SqlHarness {
    pub(crate) async fn on(database: Database) -> Self {
        let database = match database {
            Database::Sqlite => TestDatabase::sqlite().await,
            Database::Postgres => TestDatabase::postgres().await,
        };
        Self {
            database: Some(database),
            policy: FrontierPolicy::default(),
            gate_policy: RateLimitPolicy::default(),
            ledger_policy: LedgerPolicy::default(),
            request_policy: RequestPolicy::default(),
            open: vec![],
        }
    }

    fn database(&self) -> &TestDatabase {
        self.database.as_ref().expect("it is taken only at the end")
    }

    /// A handle that shares only the database with the others. A small cache, so that it evicts URLs, and small batches of
    /// keys.
    async fn handle(&mut self) -> Arc<SqlStore> {
        let options = SqlOptions {
            policy: self.policy,
            url_cache_capacity: 256,
            key_batch: 3,
            ..self.database().options()
        };
        let store = SqlStore::open(options).await.expect("the store opens");
        self.open.push(store.clone());
        Arc::new(store)
    }

    async fn opened_again(&mut self) -> Arc<SqlStore> {
        for store in self.open.drain(..) {
            store.close().await;
        }
        self.handle().await
    }
}

impl Drop for SqlHarness {
    /// Deletes the database, also after a failed case, on a runtime of its own, since the case's cannot be blocked on here.
    fn drop(&mut self) {
        let (database, open) = (self.database.take(), std::mem::take(&mut self.open));
        let cleared = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime to clear up with").block_on(async {
                for store in open {
                    store.close().await;
                }
                if let Some(database) = database {
                    database.clear().await;
                }
            });
        });
        assert!(cleared.join().is_ok() || std::thread::panicking(), "the database goes with its case");
    }
}

impl Backend for SqlHarness {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.database().clock)
    }

    fn max_groups(&self) -> usize {
        3_000
    }
}

/// Contracts of the store itself; only the frontier has a policy.
macro_rules! opens {
    ($($contract:ty: |$harness:pat_param, $policy:pat_param| $set:expr;)*) => {
        $(#[async_trait::async_trait]
        impl Harness<$contract> for SqlHarness {
            #[allow(clippy::no_effect, reason = "most of them have no policy to set")]
            async fn fresh(&mut self, policy: <$contract as Contract>::Policy) -> Arc<$contract> {
                let ($harness, $policy) = (&mut *self, policy);
                $set;
                self.handle().await
            }

            async fn second_handle(&mut self) -> Option<Arc<$contract>> {
                Some(self.handle().await)
            }

            async fn reopen(&mut self) -> Arc<$contract> {
                self.opened_again().await
            }
        })*
    };
}

opens! {
    dyn RunStore: |_, ()| ();
    dyn SeenUrls: |_, ()| ();
    dyn Tokens: |_, ()| ();
    dyn Trails: |_, ()| ();
    dyn UrlRecords: |_, ()| ();
    dyn Frontier: |harness, policy| harness.policy = policy;
}

#[async_trait::async_trait]
impl Harness<dyn PageIndex> for SqlHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn PageIndex> {
        Arc::new(self.handle().await.page_index().expect("PostgreSQL has pages"))
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn PageIndex>> {
        Some(Harness::<dyn PageIndex>::fresh(self, ()).await)
    }

    async fn reopen(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.opened_again().await.page_index().expect("PostgreSQL has pages"))
    }
}

#[async_trait::async_trait]
impl Harness<dyn RateLimiter> for SqlHarness {
    async fn fresh(&mut self, policy: RateLimitPolicy) -> Arc<dyn RateLimiter> {
        self.gate_policy = policy;
        let rate_limiter = Harness::<dyn RateLimiter>::second_handle(self).await.expect("a handle");
        // A new rate limiter holds every group for its minimum delay, since earlier state may be lost.
        self.database().clock.advance(MAX_MIN_DELAY);
        rate_limiter
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RateLimiter>> {
        let rate_limiter = self.handle().await.rate_limiter(self.gate_policy.clone()).await;
        Some(Arc::new(rate_limiter.expect("the suite's policies can be held")))
    }
}

#[async_trait::async_trait]
impl Harness<dyn Ledger> for SqlHarness {
    async fn fresh(&mut self, policy: LedgerPolicy) -> Arc<dyn Ledger> {
        self.ledger_policy = policy;
        Harness::<dyn Ledger>::second_handle(self).await.expect("a handle")
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Ledger>> {
        let ledger = self.handle().await.ledger(self.ledger_policy.clone());
        Some(Arc::new(ledger.expect("the suite's policies are valid")))
    }

    async fn reopen(&mut self) -> Arc<dyn Ledger> {
        let ledger = self.opened_again().await.ledger(self.ledger_policy.clone());
        Arc::new(ledger.expect("the suite's policies are valid"))
    }
}

#[async_trait::async_trait]
impl Harness<dyn RequestStore> for SqlHarness {
    async fn fresh(&mut self, policy: RequestPolicy) -> Arc<dyn RequestStore> {
        self.request_policy = policy;
        Harness::<dyn RequestStore>::second_handle(self).await.expect("a handle")
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RequestStore>> {
        Some(Arc::new(self.handle().await.requests(self.request_policy.clone())))
    }

    async fn reopen(&mut self) -> Arc<dyn RequestStore> {
        Arc::new(self.opened_again().await.requests(self.request_policy.clone()))
    }
}
