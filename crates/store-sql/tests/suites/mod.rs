//! How the suites open the store: one harness for all contracts, on a database of its own.

use super::harness::Ground;
use crawlway_store::{
    Frontier, FrontierPolicy, Gate, PageIndex, Policy, SeenUrls, Timestamp, Trails, UrlRecords,
    conformance::{frontier, gate, inventory, pages, seen, trails},
    gate::MAX_GAP,
};
use crawlway_store_sql::{SqlOptions, SqlStore};
use std::{sync::Arc, time::Duration};

#[derive(Clone, Copy)]
pub(crate) enum Backend {
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
    pub(crate) async fn on(backend: Backend) -> Self {
        let ground = match backend {
            Backend::Sqlite => Ground::sqlite().await,
            Backend::Postgres => Ground::postgres().await,
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

    fn time(&self) -> Timestamp {
        self.ground().clock.now()
    }

    fn let_pass(&self, time: Duration) {
        self.ground().clock.advance(time);
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

#[async_trait::async_trait]
impl seen::Harness for SqlHarness {
    async fn fresh(&mut self) -> Arc<dyn SeenUrls> {
        self.handle().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn SeenUrls>> {
        Some(self.handle().await)
    }

    async fn reopen(&mut self) -> Arc<dyn SeenUrls> {
        self.opened_again().await
    }

    fn now(&self) -> Timestamp {
        self.time()
    }

    async fn pass(&mut self, time: Duration) {
        self.let_pass(time);
    }
}

#[async_trait::async_trait]
impl trails::Harness for SqlHarness {
    async fn fresh(&mut self) -> Arc<dyn Trails> {
        self.handle().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Trails>> {
        Some(self.handle().await)
    }

    async fn reopen(&mut self) -> Arc<dyn Trails> {
        self.opened_again().await
    }
}

#[async_trait::async_trait]
impl inventory::Harness for SqlHarness {
    async fn fresh(&mut self) -> Arc<dyn UrlRecords> {
        self.handle().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn UrlRecords>> {
        Some(self.handle().await)
    }

    async fn reopen(&mut self) -> Arc<dyn UrlRecords> {
        self.opened_again().await
    }
}

#[async_trait::async_trait]
impl frontier::Harness for SqlHarness {
    async fn fresh(&mut self, policy: FrontierPolicy) -> Arc<dyn Frontier> {
        self.policy = policy;
        self.handle().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Frontier>> {
        Some(self.handle().await)
    }

    async fn reopen(&mut self) -> Arc<dyn Frontier> {
        self.opened_again().await
    }

    fn now(&self) -> Timestamp {
        self.time()
    }

    async fn pass(&mut self, time: Duration) {
        self.let_pass(time);
    }
}

#[async_trait::async_trait]
impl pages::Harness for SqlHarness {
    async fn fresh(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.handle().await.pages().expect("PostgreSQL has pages"))
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn PageIndex>> {
        Some(pages::Harness::fresh(self).await)
    }

    async fn reopen(&mut self) -> Arc<dyn PageIndex> {
        Arc::new(self.opened_again().await.pages().expect("PostgreSQL has pages"))
    }
}

#[async_trait::async_trait]
impl gate::Harness for SqlHarness {
    async fn fresh(&mut self, policy: Policy) -> Arc<dyn Gate> {
        self.gate_policy = policy;
        let gate = gate::Harness::second_handle(self).await.expect("a handle");
        // A new gate lets every group wait its gap from then on, since what was there may be lost.
        self.let_pass(MAX_GAP);
        gate
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Gate>> {
        let gate = self.handle().await.gate(self.gate_policy.clone()).await;
        Some(Arc::new(gate.expect("the suite's policies can be held")))
    }

    fn now(&self) -> Timestamp {
        self.time()
    }

    async fn pass(&mut self, time: Duration) {
        self.let_pass(time);
    }

    async fn set_back(&mut self, by: Duration) -> bool {
        let clock = &self.ground().clock;
        clock.set(clock.now() - by);
        true
    }

    fn many_groups(&self) -> usize {
        3_000
    }
}
