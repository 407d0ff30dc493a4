//! One case on one store: how to claim, mark and look.

pub(super) use super::Trial;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::seen::*;

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

impl Trial<'_> {
    pub(super) async fn claims(&self, claims: &[Claim], term: Duration) -> Vec<Claimed> {
        let answers = works(self.store.claim(claims, term).await, "claiming");
        assert_eq!(answers.len(), claims.len(), "one answer per claim");
        answers
    }

    pub(super) async fn claim(&self, url: &str, owner: &str) -> Claimed {
        self.claims(&[claim(url, owner)], TERM).await.remove(0)
    }

    pub(super) async fn mark(&self, url: &str, owner: &str, ttl: Duration) {
        works(self.store.mark(&[note(url, owner, ttl)]).await, "marking");
    }

    pub(super) async fn release(&self, url: &str, owner: &str) {
        works(self.store.release(&[claim(url, owner)]).await, "releasing");
    }

    pub(super) async fn forget(&self, urls: &[&str]) -> u64 {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        works(self.store.forget(&urls).await, "forgetting")
    }

    pub(super) async fn sweep(&self, most: usize) -> u64 {
        works(self.store.sweep(most).await, "sweeping")
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
}
