//! Record of a URL and its JSON form.

use super::{RecordId, Request};
use crate::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Map, Value};
use std::fmt;

/// Field of [`Work`] within the additional details.
pub const OURS: &str = "crawlway";

/// Record of a URL. Its JSON form has the fields of the contract, with times in ISO 8601.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Id, derived from the URL.
    pub id: RecordId,
    /// The URL, in its normal form.
    pub url: String,
    /// Status.
    pub status: Status,
    /// Content of the last completed attempt.
    pub metadata: Metadata,
    /// Result of the latest attempts.
    pub processing: Processing,
    /// Further details of the last completed attempt, without [`OURS`]; `None` if empty.
    pub additional_details: Option<Map<String, Value>>,
    /// The latest attempt; `None` if another program created the record.
    pub work: Option<Work>,
    /// When the URL was first requested, if it was queued; otherwise when the first attempt began.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Status of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
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

impl Status {
    /// All values.
    pub const ALL: [Status; 5] = [
        Status::Queued,
        Status::InProgress,
        Status::Completed,
        Status::FailedRetryable,
        Status::FailedPermanent,
    ];

    /// The stored name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "QUEUED",
            Status::InProgress => "IN_PROGRESS",
            Status::Completed => "COMPLETED",
            Status::FailedRetryable => "FAILED_RETRYABLE",
            Status::FailedPermanent => "FAILED_PERMANENT",
        }
    }

    /// Parses a stored name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether the message has ended; only a newer message changes the record.
    pub const fn is_finished(self) -> bool {
        matches!(self, Status::Completed | Status::FailedPermanent)
    }

    /// Whether an attempt is running or pending.
    pub const fn is_open(self) -> bool {
        matches!(self, Status::Queued | Status::InProgress)
    }
}

impl fmt::Display for Status {
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
    LeftOut,
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
            Self::LeftOut | Self::Absent => None,
        }
    }

    fn is_omitted(&self) -> bool {
        *self == Self::LeftOut
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
pub struct Work {
    /// Id of the message.
    pub message_id: String,
    /// When it was requested; not after its `begin`.
    #[serde(serialize_with = "iso")]
    pub requested_at: Timestamp,
    /// Number of the attempt.
    pub attempt: u64,
}

impl Record {
    /// New record for an accepted message.
    pub fn queued(request: &Request, now: Timestamp) -> Self {
        let Request { url, message_id, requested_at } = request.clone();
        Self {
            id: RecordId::of_url(&url),
            url,
            status: Status::Queued,
            metadata: Metadata::default(),
            processing: Processing::default(),
            additional_details: None,
            work: Some(Work { message_id, requested_at, attempt: 0 }),
            created_at: requested_at,
            updated_at: now,
        }
    }

    /// Hands a finished record to a newer accepted message. The fetched content is kept.
    pub fn queue_again(&mut self, request: &Request, now: Timestamp) {
        let Request { message_id, requested_at, .. } = request.clone();
        let attempt = self.work.as_ref().map_or(0, |work| work.attempt);
        self.work = Some(Work { message_id, requested_at, attempt });
        self.processing.retry_count = 0;
        self.processing.error_message = None;
        (self.status, self.updated_at) = (Status::Queued, now);
    }
}

impl Serialize for Record {
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

/// Additional details including [`Work`].
struct Details<'a>(&'a Record);

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record { additional_details, work, .. } = self.0;
        if additional_details.is_none() && work.is_none() {
            return serializer.serialize_none();
        }
        #[derive(Serialize)]
        struct Both<'a> {
            #[serde(flatten)]
            details: &'a Option<Map<String, Value>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            crawlway: &'a Option<Work>,
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

    fn record() -> Record {
        Record {
            id: RecordId::of_url("https://a.example/"),
            url: "https://a.example/".to_owned(),
            status: Status::Completed,
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
            work: Some(Work {
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
        (bare.additional_details, bare.work) = (None, None);
        let shown = serde_json::to_value(&bare).unwrap();
        assert_eq!(shown["metadata"], json!({ "headers": null, "cookies": null, "page_source": null }));
        assert_eq!(
            shown["processing"],
            json!({ "retry_count": 0, "error_message": null, "last_attempt_at": null })
        );
        assert_eq!(shown["additional_details"], Value::Null);
        bare.metadata.page_source = PageSource::LeftOut;
        let shown = serde_json::to_value(&bare).unwrap();
        assert_eq!(shown["metadata"], json!({ "headers": null, "cookies": null }));
    }

    #[test]
    fn every_status_round_trips() {
        for status in Status::ALL {
            assert_eq!(Status::from_word(status.as_str()), Some(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        assert_eq!(Status::from_word("completed"), None);
    }
}
