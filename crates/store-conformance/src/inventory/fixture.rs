//! Fixture of inventory records: beginning and ending attempts.

pub(super) use super::Fixture;
pub(super) use crate::prelude::*;
pub(super) use crawlway_store::inventory::*;

pub(super) const URL: &str = "https://a.example/";

/// A message about [`URL`], requested at this second.
pub(super) fn message(id: &str, second: u64) -> RecordRequest {
    about(URL, id, second)
}

pub(super) fn about(url: &str, id: &str, second: u64) -> RecordRequest {
    RecordRequest { url: url.to_owned(), message_id: id.to_owned(), requested_at: at(second) }
}

/// The fields of a JSON object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is no object"),
    }
}

/// A small page with this text.
pub(super) fn page(says: &str) -> FetchedContent {
    FetchedContent {
        headers: Some(object(json!({ "content-type": "text/html", "via": ["a", says] }))),
        cookies: Some(object(json!({ "id": { "value": says, "attributes": { "secure": true } } }))),
        page_source: Some(format!("<p>{says}</p>")),
        additional_details: object(json!({ "status_code": 200, "says": says })),
    }
}

/// Expects a record to have all that was fetched, and nothing else.
pub(super) fn has(record: &InventoryRecord, fetched: &FetchedContent, what: &str) {
    let FetchedContent { headers, cookies, page_source, additional_details } = fetched.clone();
    let metadata = Metadata { headers, cookies, page_source: page_source.into() };
    assert_eq!(record.metadata, metadata, "{what}");
    assert_eq!(record.additional_details.clone().unwrap_or_default(), additional_details, "{what}: details");
}

/// Expects that an attempt was begun.
pub(super) fn yours(begun: BeginOutcome) -> (Attempt, u32) {
    match begun {
        BeginOutcome::Started { attempt, retry_count } => (attempt, retry_count),
        other => panic!("the message must begin an attempt, the answer was: {other:?}"),
    }
}

pub(super) fn ended(status: RecordStatus, retry_count: u32) -> EndOutcome {
    EndOutcome::Recorded { status, retry_count }
}

/// Expects a call to be refused as invalid.
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, what: &str) -> String {
    match answer {
        Err(StoreError::Invalid { problem }) => problem,
        other => panic!("{what} must be refused as invalid, the answer was: {other:?}"),
    }
}

impl Fixture<'_> {
    pub(super) async fn begin(&self, request: &RecordRequest, second: u64) -> BeginOutcome {
        expect_ok(self.store.begin(request, at(second)).await, "beginning")
    }

    /// Begins an attempt, which must succeed.
    pub(super) async fn attempt(&self, request: &RecordRequest, second: u64) -> Attempt {
        yours(self.begin(request, second).await).0
    }

    pub(super) async fn complete(
        &self,
        attempt: &Attempt,
        fetched: &FetchedContent,
        second: u64,
    ) -> EndOutcome {
        expect_ok(self.store.complete(attempt, fetched, at(second)).await, "completing")
    }

    pub(super) async fn fail(&self, attempt: &Attempt, error: &str, second: u64) -> EndOutcome {
        expect_ok(self.store.fail(attempt, error, MAX_ATTEMPTS, at(second)).await, "failing")
    }

    /// The record of a URL, which must exist.
    pub(super) async fn record_of(&self, url: &str) -> InventoryRecord {
        let found = expect_ok(self.store.get(RecordId::of_url(url)).await, "reading a record");
        found.unwrap_or_else(|| panic!("the record of {url} must be there"))
    }

    pub(super) async fn record(&self) -> InventoryRecord {
        self.record_of(URL).await
    }

    pub(super) async fn list(&self, wanted: RecordQuery) -> RecordPage {
        expect_ok(self.store.list(&wanted).await, "listing")
    }

    /// Begins and completes an attempt; returns the record.
    pub(super) async fn completed(
        &self,
        request: &RecordRequest,
        fetched: &FetchedContent,
        second: u64,
    ) -> InventoryRecord {
        let attempt = self.attempt(request, second).await;
        let told = self.complete(&attempt, fetched, second).await;
        assert!(
            matches!(told, EndOutcome::Recorded { status: RecordStatus::Completed, .. }),
            "completing told {told:?}"
        );
        self.record_of(&request.url).await
    }
}
