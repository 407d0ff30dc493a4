//! Proof of the suites by fault injection: each fault in a backend that passes is found by the cases named beside it.
//!
//! For single cases there is `cargo mutants`; see CONTRIBUTING.md.

mod blobs;
mod frontier;
mod inventory;
mod ledger;
mod pages;
mod rate_limiter;
mod requests;
mod runs;
mod seen;
mod tokens;
mod trails;

use crawlway_clock::{Clock, ManualClock};
use crawlway_store::{
    Frontier, FrontierPolicy, Ledger, LedgerPolicy, RequestPolicy, RequestStore, RunStore, SeenUrls,
    StoreError, Timestamp, Tokens, Trails, UrlRecords,
};
use crawlway_store_conformance::{Backend, Contract, Harness};
use crawlway_store_sql::{Database, SqlOptions, SqlStore};
use std::sync::Arc;

type Answer<T> = Result<T, StoreError>;

/// A store with one fault.
#[derive(Debug)]
struct Faulty<C: ?Sized, F> {
    store: Arc<C>,
    fault: F,
}

/// Implements a contract for a faulty store: forwarded methods first, then those with faults.
macro_rules! faulty {
    ($contract:ident { $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* } $($own:tt)*) => {
        #[async_trait::async_trait]
        impl $contract for $crate::Faulty<dyn $contract, Fault> {
            $(async fn $name(&self, $($argument: $type),*) -> $answer {
                self.store.$name($($argument),*).await
            })*
            $($own)*
        }
    };
}
use faulty;

/// A harness whose stores have a fault.
struct Broken<C: ?Sized, H> {
    inner: H,
    break_it: Box<dyn Fn(Arc<C>) -> Arc<C> + Send + Sync>,
}

#[async_trait::async_trait]
impl<C: ?Sized, H: Backend> Backend for Broken<C, H> {
    fn clock(&self) -> Option<&ManualClock> {
        self.inner.clock()
    }

    fn max_groups(&self) -> usize {
        100
    }
}

#[async_trait::async_trait]
impl<C: Contract + ?Sized, H: Harness<C>> Harness<C> for Broken<C, H> {
    async fn fresh(&mut self, policy: C::Policy) -> Arc<C> {
        (self.break_it)(self.inner.fresh(policy).await)
    }

    async fn second_handle(&mut self) -> Option<Arc<C>> {
        self.inner.second_handle().await.map(&self.break_it)
    }

    async fn reopen(&mut self) -> Arc<C> {
        (self.break_it)(self.inner.reopen().await)
    }
}

/// A test that each fault is found by the cases beside it.
macro_rules! finds {
    ($suite:ident on $contract:ty, $harness:expr; $($fault:ident: $($module:ident::$case:ident),+;)*) => {
        #[test]
        fn each_fault_is_found() {
            use crawlway_store_conformance::$suite::{CASES, run};
            for (fault, module, case) in [$($((Fault::$fault, stringify!($module), stringify!($case)),)+)*] {
                let named = CASES.iter().any(|known| (known.module, known.name) == (module, case));
                assert!(named, "there is no case {module}::{case}");
                crawlway_conformance::must_fail(&format!("{module}::{case} with {fault:?}"), || {
                    run(module, case, async || $crate::Broken {
                        inner: $harness,
                        break_it: Box::new(move |store: std::sync::Arc<$contract>| {
                            std::sync::Arc::new($crate::Faulty { store, fault })
                        }),
                    });
                });
            }
        }
    };
}
use finds;

/// A store in a SQLite file.
struct Sqlite {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    policy: FrontierPolicy,
    ledger_policy: LedgerPolicy,
    request_policy: RequestPolicy,
}

impl Sqlite {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (policy, ledger_policy) = (FrontierPolicy::default(), LedgerPolicy::default());
        let (clock, request_policy) = (ManualClock::at(Timestamp::now()), RequestPolicy::default());
        Self { folder, clock, policy, ledger_policy, request_policy }
    }

    async fn open(&self) -> Arc<SqlStore> {
        let (policy, clock) = (self.policy, Clock::Manual(self.clock.clone()));
        let place = Database::Sqlite(self.folder.path().join("store.db"));
        let options = SqlOptions { policy, clock, connections: 4, ..SqlOptions::new(place) };
        Arc::new(SqlStore::open(options).await.expect("the store opens"))
    }
}

impl Backend for Sqlite {
    fn clock(&self) -> Option<&ManualClock> {
        Some(&self.clock)
    }
}

macro_rules! sqlite_has {
    ($($contract:ident: $keep:expr;)*) => {
        $(#[async_trait::async_trait]
        impl Harness<dyn $contract> for Sqlite {
            async fn fresh(&mut self, policy: <dyn $contract as Contract>::Policy) -> Arc<dyn $contract> {
                let keep: fn(&mut Self, <dyn $contract as Contract>::Policy) = $keep;
                keep(self, policy);
                self.open().await
            }

            async fn second_handle(&mut self) -> Option<Arc<dyn $contract>> {
                Some(self.open().await)
            }
        })*
    };
}

sqlite_has! {
    Frontier: |harness, policy| harness.policy = policy;
    RunStore: |_, ()| ();
    SeenUrls: |_, ()| ();
    Tokens: |_, ()| ();
    Trails: |_, ()| ();
    UrlRecords: |_, ()| ();
}

#[async_trait::async_trait]
impl Harness<dyn Ledger> for Sqlite {
    async fn fresh(&mut self, policy: LedgerPolicy) -> Arc<dyn Ledger> {
        self.ledger_policy = policy;
        Harness::<dyn Ledger>::second_handle(self).await.expect("a handle")
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn Ledger>> {
        let ledger = self.open().await.ledger(self.ledger_policy.clone());
        Some(Arc::new(ledger.expect("the suite's policies are valid")))
    }
}

#[async_trait::async_trait]
impl Harness<dyn RequestStore> for Sqlite {
    async fn fresh(&mut self, policy: RequestPolicy) -> Arc<dyn RequestStore> {
        self.request_policy = policy;
        Harness::<dyn RequestStore>::second_handle(self).await.expect("a handle")
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn RequestStore>> {
        Some(Arc::new(self.open().await.requests(self.request_policy.clone())))
    }
}
