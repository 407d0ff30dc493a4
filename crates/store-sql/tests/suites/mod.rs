//! How the suites open the store: one harness for all contracts, on a database of its own.

use super::harness::Ground;
use crawlway_store::{
    Frontier, FrontierPolicy, Gate, ManualClock, PageIndex, Policy, SeenUrls, Trails, UrlRecords,
    gate::MAX_GAP,
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
    /// Taken only when the harness goes.
    ground: Option<Ground>,
    policy: FrontierPolicy,
    gate_policy: Policy,
    open: Vec<SqlStore>,
}

impl SqlHarness {
    pub(crate) async fn on(database: Database) -> Self {
        let ground = match database {
            Database::Sqlite => Ground::sqlite().await,
            Database::Postgres => Ground::postgres().await,
        };
        Self {
            ground: Some(ground),
            policy: FrontierPolicy::default(),
            gate_policy: Policy::default(),
            open: vec![],
        }
    }

    fn ground(&self) -> &Ground {
        self.ground.as_ref().expect("it is taken only at the end")
    }

    /// A handle that shares nothing with the others but the database. Remembers few URLs, so that it forgets some,
    /// and moves keys after every few.
    async fn handle(&mut self) -> Arc<SqlStore> {
        let options =
            SqlOptions { policy: self.policy, remembered: 256, keys_at_once: 3, ..self.ground().options() };
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
    /// Also after a case that failed. The runtime of the case cannot be waited on here, so it has one of its own.
    fn drop(&mut self) {
        let (ground, open) = (self.ground.take(), std::mem::take(&mut self.open));
        let cleared = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime to clear up with").block_on(async {
                for store in open {
                    store.close().await;
                }
                if let Some(ground) = ground {
                    ground.clear().await;
                }
            });
        });
        assert!(cleared.join().is_ok() || std::thread::panicking(), "the database goes with its case");
    }
}

impl Backend for SqlHarness {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.ground().clock)
    }

    fn many_groups(&self) -> usize {
        3_000
    }
}

/// The store itself honours these contracts, which are opened alike but for the policy of a frontier.
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
    dyn SeenUrls: |_, ()| ();
    dyn Trails: |_, ()| ();
    dyn UrlRecords: |_, ()| ();
    dyn Frontier: |harness, policy| harness.policy = policy;
}

#[async_trait::async_trait]
impl Harness<dyn PageIndex> for SqlHarness {
    async fn fresh(&mut self, (): ()) -> Arc<dyn PageIndex> {
        Arc::new(self.handle().await.pages().expect("PostgreSQL has pages"))
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn PageIndex>> {
        Some(Harness::<dyn PageIndex>::fresh(self, ()).await)
    }

    async fn reopen(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.opened_again().await.pages().expect("PostgreSQL has pages"))
    }
}

#[async_trait::async_trait]
impl Harness<dyn Gate> for SqlHarness {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        self.gate_policy = policy;
        let gate = Harness::<dyn Gate>::second_handle(self).await.expect("a handle");
        // A new gate lets every group wait its gap from then on, since what was there may be lost.
        self.ground().clock.advance(MAX_GAP);
        gate
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        let gate = self.handle().await.gate(self.gate_policy.clone()).await;
        Some(Arc::new(gate.expect("the suite's policies can be held")))
    }
}
