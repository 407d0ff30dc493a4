//! Record of a URL and its JSON form.

use super::{RecordId, RecordRequest};
use crate::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Map, Value};
use std::fmt;

/// Field of [`LatestAttempt`] within the additional details.
pub const CRAWLWAY_FIELD: &str = "crawlway";

/// Record of a URL. Its JSON form has the fields of the contract, with times in ISO 8601.
#[derive(Debug, Clone, PartialEq)]
pub struct InventoryRecord {
    /// Id, derived from the URL.
    pub id: RecordId,
    /// The URL, in its normal form.
    pub url: String,
    /// Status.
    pub status: RecordStatus,
    /// Content of the last completed attempt.
    pub metadata: Metadata,
    /// Result of the latest attempts.
    pub processing: Processing,
    /// Further details of the last completed attempt, without [`CRAWLWAY_FIELD`]; `None` if empty.
    pub additional_details: Option<Map<String, Value>>,
    /// The latest attempt; `None` if another program created the record.
    pub latest_attempt: Option<LatestAttempt>,
    /// When the URL was first requested, if it was queued; otherwise when the first attempt began.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Status of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RecordStatus {
    /// Accepted, not yet begun.
    Queued,
    /// An attempt is running.
    InProgress,
    /// Fetched and stored.
    Completed,
    /// Failed, to be retried.
    FailedRetryable,
    /// Failed in all attempts.
    FailedPermanent,
}

impl RecordStatus {
    /// All values.
    pub const ALL: [RecordStatus; 5] = [
        RecordStatus::Queued,
        RecordStatus::InProgress,
        RecordStatus::Completed,
        RecordStatus::FailedRetryable,
        RecordStatus::FailedPermanent,
    ];

    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            RecordStatus::Queued => "QUEUED",
            RecordStatus::InProgress => "IN_PROGRESS",
            RecordStatus::Completed => "COMPLETED",
            RecordStatus::FailedRetryable => "FAILED_RETRYABLE",
            RecordStatus::FailedPermanent => "FAILED_PERMANENT",
        }
    }

    /// Parses a stored name.
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether the message has ended; only a newer message changes the record.
    pub const fn is_finished(self) -> bool {
        matches!(self, RecordStatus::Completed | RecordStatus::FailedPermanent)
    }

    /// Whether an attempt is running or pending.
    pub const fn is_open(self) -> bool {
        matches!(self, RecordStatus::Queued | RecordStatus::InProgress)
    }
}

impl fmt::Display for RecordStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Fetched content, as shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Metadata {
    /// The headers, see [`headers`](super::headers()).
    pub headers: Option<Map<String, Value>>,
    /// The cookies, see [`cookies`](super::cookies()).
    pub cookies: Option<Map<String, Value>>,
    /// Page source.
    #[serde(skip_serializing_if = "PageSource::is_omitted")]
    pub page_source: PageSource,
}

/// Page source, if it was requested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum PageSource {
    /// Not requested and not read; the record may have one.
    Omitted,
    /// The record has none.
    #[default]
    Absent,
    /// The source.
    Text(String),
}

impl PageSource {
    /// The source, if present.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Omitted | Self::Absent => None,
        }
    }

    fn is_omitted(&self) -> bool {
        *self == Self::Omitted
    }
}

impl From<Option<String>> for PageSource {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Absent, Self::Text)
    }
}

/// Result of the latest attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Processing {
    /// Number of failed attempts of the latest message.
    pub retry_count: u32,
    /// Last error; cleared by a success and by a newer message.
    pub error_message: Option<String>,
    /// When the latest attempt began.
    #[serde(serialize_with = "opt_iso")]
    pub last_attempt_at: Option<Timestamp>,
}

/// The latest attempt at a record, for fencing and for the order of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LatestAttempt {
    /// Id of the message.
    pub message_id: String,
    /// When it was requested; not after its `begin`.
    #[serde(serialize_with = "iso")]
    pub requested_at: Timestamp,
    /// Number of the attempt.
    pub attempt: u64,
}

impl InventoryRecord {
    /// New record for an accepted message.
    pub fn queued(request: &RecordRequest, now: Timestamp) -> Self {
        let RecordRequest { url, message_id, requested_at } = request.clone();
        Self {
            id: RecordId::of_url(&url),
            url,
            status: RecordStatus::Queued,
            metadata: Metadata::default(),
            processing: Processing::default(),
            additional_details: None,
            latest_attempt: Some(LatestAttempt { message_id, requested_at, attempt: 0 }),
            created_at: requested_at,
            updated_at: now,
        }
    }

    /// Hands a finished record to a newer accepted message. The fetched content is kept.
    pub fn queue_again(&mut self, request: &RecordRequest, now: Timestamp) {
        let RecordRequest { message_id, requested_at, .. } = request.clone();
        let attempt = self.latest_attempt.as_ref().map_or(0, |work| work.attempt);
        self.latest_attempt = Some(LatestAttempt { message_id, requested_at, attempt });
        self.processing.retry_count = 0;
        self.processing.error_message = None;
        (self.status, self.updated_at) = (RecordStatus::Queued, now);
    }
}

impl Serialize for InventoryRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut record = serializer.serialize_struct("Record", 8)?;
        record.serialize_field("_id", &self.id.to_string())?;
        record.serialize_field("url", &self.url)?;
        record.serialize_field("status", &self.status)?;
        record.serialize_field("metadata", &self.metadata)?;
        record.serialize_field("processing", &self.processing)?;
        record.serialize_field("additional_details", &Details(self))?;
        record.serialize_field("created_at", &self.created_at.to_iso())?;
        record.serialize_field("updated_at", &self.updated_at.to_iso())?;
        record.end()
    }
}

/// Additional details including [`LatestAttempt`].
struct Details<'a>(&'a InventoryRecord);

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let InventoryRecord { additional_details, latest_attempt: work, .. } = self.0;
        if additional_details.is_none() && work.is_none() {
            return serializer.serialize_none();
        }
        #[derive(Serialize)]
        struct Both<'a> {
            #[serde(flatten)]
            details: &'a Option<Map<String, Value>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            crawlway: &'a Option<LatestAttempt>,
        }
        Both { details: additional_details, crawlway: work }.serialize(serializer)
    }
}

fn iso<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_iso())
}

fn opt_iso<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => iso(time, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> InventoryRecord {
        InventoryRecord {
            id: RecordId::of_url("https://a.example/"),
            url: "https://a.example/".to_owned(),
            status: RecordStatus::Completed,
            metadata: Metadata {
                headers: json!({ "content-type": "text/html", "via": ["a", "b"] }).as_object().cloned(),
                cookies: None,
                page_source: PageSource::Text("<p>".to_owned()),
            },
            processing: Processing {
                retry_count: 1,
                error_message: None,
                last_attempt_at: Some(Timestamp::from_millis(1_700_000_001_000)),
            },
            additional_details: json!({ "status_code": 200 }).as_object().cloned(),
            latest_attempt: Some(LatestAttempt {
                message_id: "m-1".to_owned(),
                requested_at: Timestamp::from_millis(1_700_000_000_500),
                attempt: 2,
            }),
            created_at: Timestamp::from_millis(1_700_000_000_000),
            updated_at: Timestamp::from_millis(1_700_000_002_000),
        }
    }

    #[test]
    fn a_record_has_the_fields_of_the_contract() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&record()).unwrap());
    }

    #[test]
    fn empty_fields_are_null_and_an_omitted_source_has_no_field() {
        let mut bare = record();
        (bare.metadata, bare.processing) = (Metadata::default(), Processing::default());
        (bare.additional_details, bare.latest_attempt) = (None, None);
        let shown = serde_json::to_value(&bare).unwrap();
        assert_eq!(shown["metadata"], json!({ "headers": null, "cookies": null, "page_source": null }));
        assert_eq!(
            shown["processing"],
            json!({ "retry_count": 0, "error_message": null, "last_attempt_at": null })
        );
        assert_eq!(shown["additional_details"], Value::Null);
        bare.metadata.page_source = PageSource::Omitted;
        let shown = serde_json::to_value(&bare).unwrap();
        assert_eq!(shown["metadata"], json!({ "headers": null, "cookies": null }));
    }

    #[test]
    fn every_status_round_trips() {
        for status in RecordStatus::ALL {
            assert_eq!(RecordStatus::from_name(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        assert_eq!(RecordStatus::from_name("completed"), None);
    }
}
