//! Fixture of a case: the harness, an open store, and helpers for all contracts.

use crate::{Contract, Harness};
use crawlway_conformance::Running;
use crawlway_store::{StoreError, Timestamp};
use std::{sync::Arc, time::Duration};

/// A harness that has not opened a store yet.
pub(crate) type Fresh<'h, C> = &'h mut (dyn Harness<C> + 'h);

/// Starts a case with its argument.
pub(crate) fn start<'h, C, B, F>(harness: Fresh<'h, C>, case: fn(B) -> F) -> Running<'h>
where
    C: Contract + ?Sized,
    B: Begin<'h, C> + 'h,
    F: Future<Output = ()> + 'h,
{
    Box::pin(async move { case(B::begin(harness).await).await })
}

/// Argument of a case: a harness, a fixture, or a fixture with some content.
pub(crate) trait Begin<'h, C: Contract + ?Sized>: Sized {
    fn begin(harness: Fresh<'h, C>) -> impl Future<Output = Self>;
}

impl<'h, C: Contract + ?Sized> Begin<'h, C> for Fresh<'h, C> {
    async fn begin(harness: Fresh<'h, C>) -> Self {
        harness
    }
}

impl<'h, C: Contract + ?Sized> Begin<'h, C> for Fixture<'h, C> {
    async fn begin(harness: Fresh<'h, C>) -> Self {
        Self::with(harness, C::default_policy()).await
    }
}

pub(crate) struct Fixture<'h, C: Contract + ?Sized> {
    pub(crate) harness: Fresh<'h, C>,
    pub(crate) store: Arc<C>,
}

impl<'h, C: Contract + ?Sized> Fixture<'h, C> {
    /// A fresh store with this policy.
    pub(crate) async fn with(harness: Fresh<'h, C>, policy: C::Policy) -> Self {
        let store = harness.fresh(policy.clone()).await;
        assert!(store.has_policy(&policy), "a store reports its policy");
        Self { harness, store }
    }

    /// The same state, reopened after all handles were dropped.
    pub(crate) async fn reopened(self) -> Self {
        let Self { harness, store } = self;
        drop(store);
        let store = harness.reopen().await;
        Self { harness, store }
    }

    /// A second handle if the backend supports it, else the same one.
    pub(crate) async fn another_handle(&mut self) -> Arc<C> {
        self.harness.second_handle().await.unwrap_or_else(|| self.store.clone())
    }

    /// Runs concurrent workers, each on a task of its own, by turns on two handles; returns their answers.
    pub(crate) async fn race<T, F>(&mut self, workers: usize, work: impl Fn(usize, Arc<C>) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let handles = [self.store.clone(), self.another_handle().await];
        let start = |number: usize| tokio::spawn(work(number, handles[number % 2].clone()));
        let mut answers = Vec::new();
        for worker in (0..workers).map(start).collect::<Vec<_>>() {
            answers.push(worker.await.unwrap_or_else(|error| panic!("a worker failed: {error}")));
        }
        answers
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.harness.now()
    }

    pub(crate) fn slack(&self) -> Duration {
        self.harness.slack()
    }

    pub(crate) async fn pass(&mut self, time: Duration) {
        self.harness.advance(time).await;
    }

    /// Lets this much time pass, and the slack.
    pub(crate) async fn pass_all_of(&mut self, time: Duration) {
        self.pass(time + self.slack()).await;
    }

    pub(crate) async fn pass_until(&mut self, time: Timestamp) {
        let rest = time.since(self.now());
        if !rest.is_zero() {
            self.pass(rest).await;
        }
    }

    /// Expects a time, or one later by the slack at most.
    pub(crate) fn about(&self, at: Timestamp, due: Timestamp, what: &str) {
        assert!(at >= due, "{what}: {:?} too early, {at:?} instead of {due:?}", due.since(at));
        let late = at.since(due);
        assert!(late <= self.slack(), "{what}: {late:?} too late, {at:?} instead of {due:?}");
    }
}

/// The answer to a call that must not fail.
pub(crate) fn expect_ok<T>(answer: Result<T, StoreError>, what: &str) -> T {
    answer.unwrap_or_else(|error| panic!("{what} must work, the answer was: {error}"))
}

/// Seconds after a fixed time, for contracts whose times the caller passes.
pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + second * 1000)
}
