//! Fixture of a seen-URL store: claiming and marking.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::seen::*;

/// The term of most claims.
pub(super) const TERM: Duration = Duration::from_secs(120);
/// TTL of most marks.
pub(super) const TTL: Duration = Duration::from_secs(3600);
/// A safe distance from the end of a term, whatever the slack.
pub(super) const MARGIN: Duration = Duration::from_secs(10);

pub(super) fn claim(url: &str, owner: &str) -> Claim {
    Claim::new(url, owner)
}

pub(super) fn note(url: &str, owner: &str, ttl: Duration) -> SeenUrl {
    SeenUrl { url: url.to_owned(), owner: owner.to_owned(), ttl }
}

impl Fixture<'_> {
    pub(super) async fn claims(&self, claims: &[Claim], term: Duration) -> Vec<ClaimOutcome> {
        let answers = expect_ok(self.store.claim(claims, term).await, "claiming");
        assert_eq!(answers.len(), claims.len(), "one answer per claim");
        answers
    }

    pub(super) async fn claim(&self, url: &str, owner: &str) -> ClaimOutcome {
        self.claims(&[claim(url, owner)], TERM).await.remove(0)
    }

    pub(super) async fn mark(&self, url: &str, owner: &str, ttl: Duration) {
        expect_ok(self.store.mark(&[note(url, owner, ttl)]).await, "marking");
    }

    pub(super) async fn release(&self, url: &str, owner: &str) {
        expect_ok(self.store.release(&[claim(url, owner)]).await, "releasing");
    }

    pub(super) async fn forget(&self, urls: &[&str]) -> u64 {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        expect_ok(self.store.forget(&urls).await, "forgetting")
    }

    pub(super) async fn sweep(&self, most: usize) -> u64 {
        expect_ok(self.store.purge_expired(most).await, "sweeping")
    }

    /// Expects a claim to succeed.
    pub(super) async fn ours(&self, url: &str, owner: &str, because: &str) {
        assert_eq!(
            self.claim(url, owner).await,
            ClaimOutcome::Granted,
            "{url} is {owner}'s, since {because}"
        );
    }

    /// Expects a claim to be refused because of this owner's claim until this time.
    pub(super) async fn taken(&self, url: &str, asks: &str, has: &str, due: Timestamp) {
        match self.claim(url, asks).await {
            ClaimOutcome::Taken { owner, until } => {
                assert_eq!(owner, has, "whose claim on {url} it is");
                self.about(until, due, "the end of the claim");
            }
            other => panic!("{url} is taken by {has} and {asks} must be told so, the answer was {other:?}"),
        }
    }

    /// Expects a claim to be refused because of this owner's mark until this time.
    pub(super) async fn seen(&self, url: &str, asks: &str, has: &str, due: Timestamp) {
        match self.claim(url, asks).await {
            ClaimOutcome::Seen { owner, until, .. } => {
                assert_eq!(owner, has, "the owner of the mark of {url}");
                self.about(until, due, "when it may be crawled again");
            }
            other => panic!("{url} is seen by {has} and {asks} must be told so, the answer was {other:?}"),
        }
    }
}
