//! Fixture of requests: users of a single case, and calls that must work.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::{RequestPolicy, requests::*};
use serde_json::value::RawValue;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const POLICY: RequestPolicy = RequestPolicy {
    timeout: Duration::from_secs(600),
    publish_timeout: Duration::from_secs(60),
    keep_late_answers: false,
};

/// An e-mail address that no other case has, since keys of users have no namespace.
pub(super) fn user(name: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{name}.{}.{}.{number}@example.com", std::process::id(), Timestamp::now().as_millis())
}

/// A pending request, created at this second.
pub(super) fn request(email: &str, id: &str, second: u64) -> CrawlRequest {
    CrawlRequest::pending(RequestKey::new(email, id), format!("https://a.example/{id}"), at(second).to_iso())
}

/// A result, as JSON text.
pub(super) fn completed(request: &CrawlRequest, json: &str) -> Answer {
    let result = Ok(RawValue::from_string(json.to_owned()).expect("JSON"));
    Answer { key: request.key(), created_at: request.created_at.clone(), result }
}

pub(super) fn failed(request: &CrawlRequest, error: &str) -> Answer {
    Answer { key: request.key(), created_at: request.created_at.clone(), result: Err(error.to_owned()) }
}

/// Status and result of a request.
pub(super) fn end_of(request: &CrawlRequest) -> (RequestStatus, String) {
    (request.status, request.result.as_ref().map_or("null", |result| result.get()).to_owned())
}

impl Fixture<'_> {
    pub(super) async fn add(&self, request: &CrawlRequest) -> AddOutcome {
        let mut added = expect_ok(self.store.add(from_ref(request)).await, "adding");
        assert_eq!(added.len(), 1, "one answer");
        added.remove(0)
    }

    /// Adds requests of a user, published and with these ids.
    pub(super) async fn added(&self, email: &str, ids: &[&str]) -> Vec<CrawlRequest> {
        let requests: Vec<CrawlRequest> =
            (1..).zip(ids).map(|(second, id)| request(email, id, second)).collect();
        let added = expect_ok(self.store.add(&requests).await, "adding");
        assert!(added.iter().all(|outcome| *outcome == AddOutcome::Added), "all are new: {added:?}");
        expect_ok(self.store.published(&requests).await, "a confirm");
        requests
    }

    pub(super) async fn apply(&self, answer: &Answer) -> ApplyOutcome {
        expect_ok(self.store.apply(from_ref(answer)).await, "applying")[0]
    }

    pub(super) async fn find(&self, request: &CrawlRequest) -> Option<CrawlRequest> {
        expect_ok(self.store.get(&request.key()).await, "reading")
    }

    pub(super) async fn get(&self, request: &CrawlRequest) -> CrawlRequest {
        self.find(request).await.unwrap_or_else(|| panic!("request {} must be there", request.id))
    }

    /// Unpublished requests of this case.
    pub(super) async fn unpublished(&self, email: &str) -> Vec<String> {
        let taken = expect_ok(self.store.take_unpublished(1000).await, "taking");
        taken.into_iter().filter(|request| request.email == email).map(|request| request.id).collect()
    }

    pub(super) async fn expire(&self) -> usize {
        expect_ok(self.store.expire("no answer in time", 1000).await, "expiring")
    }

    pub(super) async fn list(&self, email: &str, query: RequestQuery) -> RequestPage {
        expect_ok(self.store.list(email, &query).await, "listing")
    }

    pub(super) async fn changes(&self, email: &str, after: &ChangeId) -> Vec<Change> {
        let feeds = [(email.to_owned(), after.clone())];
        expect_ok(self.store.changes(&feeds, 10_000).await, "reading changes").remove(0)
    }
}
