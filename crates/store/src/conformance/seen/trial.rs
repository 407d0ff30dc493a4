//! One case on one store: the harness, the open handle, and how to claim, mark and look.

use super::Harness;
pub(super) use crate::conformance::expect::works;
use crate::seen::{Claim, Claimed, Seen};
use crate::{SeenUrls, Timestamp};
use std::{sync::Arc, time::Duration};

/// The term of most claims.
pub(super) const TERM: Duration = Duration::from_secs(120);
/// How long most URLs stay seen.
pub(super) const TTL: Duration = Duration::from_secs(3600);
/// Early enough to be before the end of anything, whatever the slack.
pub(super) const MARGIN: Duration = Duration::from_secs(10);

pub(super) fn claim(url: &str, owner: &str) -> Claim {
    Claim::new(url, owner)
}

pub(super) fn note(url: &str, owner: &str, ttl: Duration) -> Seen {
    Seen { url: url.to_owned(), owner: owner.to_owned(), ttl }
}

pub(super) struct Trial<'h> {
    pub(super) harness: &'h mut dyn Harness,
    pub(super) seen: Arc<dyn SeenUrls>,
}

impl<'h> Trial<'h> {
    pub(super) async fn open(harness: &'h mut dyn Harness) -> Self {
        let seen = harness.fresh().await;
        Self { harness, seen }
    }

    /// The same state, opened again after all handles were lost.
    pub(super) async fn reopened(self) -> Self {
        let Self { harness, seen } = self;
        drop(seen);
        let seen = harness.reopen().await;
        Self { harness, seen }
    }

    /// A second handle where the backend has such, else the same one again.
    pub(super) async fn another_handle(&mut self) -> Arc<dyn SeenUrls> {
        self.harness.second_handle().await.unwrap_or_else(|| self.seen.clone())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.harness.now()
    }

    pub(super) async fn pass(&mut self, time: Duration) {
        self.harness.pass(time).await;
    }

    /// Lets this much time pass, and the slack, so that what takes that long is over.
    pub(super) async fn pass_all_of(&mut self, time: Duration) {
        self.harness.pass(time + self.harness.slack()).await;
    }

    pub(super) async fn claims(&self, claims: &[Claim], term: Duration) -> Vec<Claimed> {
        let answers = works(self.seen.claim(claims, term).await, "claiming");
        assert_eq!(answers.len(), claims.len(), "one answer per claim");
        answers
    }

    pub(super) async fn claim(&self, url: &str, owner: &str) -> Claimed {
        self.claims(&[claim(url, owner)], TERM).await.remove(0)
    }

    pub(super) async fn mark(&self, url: &str, owner: &str, ttl: Duration) {
        works(self.seen.mark(&[note(url, owner, ttl)]).await, "marking");
    }

    pub(super) async fn release(&self, url: &str, owner: &str) {
        works(self.seen.release(&[claim(url, owner)]).await, "releasing");
    }

    pub(super) async fn forget(&self, urls: &[&str]) -> u64 {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        works(self.seen.forget(&urls).await, "forgetting")
    }

    pub(super) async fn sweep(&self, most: usize) -> u64 {
        works(self.seen.sweep(most).await, "sweeping")
    }

    /// Claims and gets it.
    pub(super) async fn ours(&self, url: &str, owner: &str, because: &str) {
        assert_eq!(self.claim(url, owner).await, Claimed::Ours, "{url} is {owner}'s, since {because}");
    }

    /// Claims, and is told that this one is at it until about then.
    pub(super) async fn taken(&self, url: &str, asks: &str, has: &str, due: Timestamp) {
        match self.claim(url, asks).await {
            Claimed::Taken { owner, until } => {
                assert_eq!(owner, has, "whose claim on {url} it is");
                self.about(until, due, "the end of the claim");
            }
            other => panic!("{url} is taken by {has} and {asks} must be told so, the answer was {other:?}"),
        }
    }

    /// Claims, and is told that this one has crawled it, and that it need not be crawled until about then.
    pub(super) async fn seen(&self, url: &str, asks: &str, has: &str, due: Timestamp) {
        match self.claim(url, asks).await {
            Claimed::Seen { owner, until, .. } => {
                assert_eq!(owner, has, "who has crawled {url}");
                self.about(until, due, "when it may be crawled again");
            }
            other => panic!("{url} is seen by {has} and {asks} must be told so, the answer was {other:?}"),
        }
    }

    /// Expects this time to be the due one, or later by the slack at most.
    pub(super) fn about(&self, at: Timestamp, due: Timestamp, what: &str) {
        assert!(at >= due, "{what}: {:?} too early, {at:?} instead of {due:?}", due.since(at));
        let late = at.since(due);
        assert!(late <= self.harness.slack(), "{what}: {late:?} too late, {at:?} instead of {due:?}");
    }
}
