//! URLs of the flow `inventory` and their records, as programs see them.

use crawlway_flows::inventory::Accepted;
use crawlway_store::inventory::{Listed, Record, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A URL that is in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceptedUrl {
    /// The id of its record, which is the same each time the URL is asked for.
    pub id: String,
    /// Where its record is.
    pub location: String,
    /// The URL in normal form.
    pub url: String,
    /// `QUEUED`.
    pub status: String,
    /// The id of this request: its trail goes by it.
    pub message_id: String,
    /// When it was asked for, in ISO 8601.
    pub requested_at: String,
}

impl From<Accepted> for AcceptedUrl {
    fn from(accepted: Accepted) -> Self {
        let Accepted { id, url, message_id, requested_at } = accepted;
        Self {
            id: id.to_string(),
            location: format!("/api/urls/{id}"),
            url: url.into_string(),
            status: Status::Queued.to_string(),
            message_id,
            requested_at: requested_at.to_iso(),
        }
    }
}

/// What is known of a URL. Times are in ISO 8601.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlRecord {
    /// Its id, 24 hexadecimal digits, which follows from the URL.
    #[serde(rename = "_id")]
    #[schema(rename = "_id")]
    pub id: String,
    /// The URL in normal form.
    pub url: String,
    /// `QUEUED`, `IN_PROGRESS`, `COMPLETED`, `FAILED_RETRYABLE` or `FAILED_PERMANENT`.
    pub status: String,
    /// What came back when it was last completed.
    pub metadata: UrlMetadata,
    /// How it went lately.
    pub processing: UrlProcessing,
    /// What else came back: `status_code`, `final_url`, `content_type`, `content_length`, `redirects`, of text also
    /// `charset` and `truncated`; `crawlway` has our own notes.
    #[schema(value_type = Option<Object>)]
    pub additional_details: Option<Map<String, Value>>,
    /// When the first attempt began.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// True if the store could not be asked whether it is still so; left out otherwise.
    #[serde(default)]
    #[schema(required = false)]
    pub stale: bool,
}

/// What came back for a URL.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlMetadata {
    /// Each header's value by its name; several values of one name are an array.
    #[schema(value_type = Option<Object>)]
    pub headers: Option<Map<String, Value>>,
    /// Each cookie that was set, by name: `{"value", "attributes"}`, or an array of these.
    #[schema(value_type = Option<Object>)]
    pub cookies: Option<Map<String, Value>>,
    /// The page's source; null if it is not text. Left out of lists unless it is asked for.
    pub page_source: Option<String>,
}

/// How it went lately.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlProcessing {
    /// How many tries of the latest message have failed.
    pub retry_count: u32,
    /// What went wrong last, until it goes well.
    pub error_message: Option<String>,
    /// When the latest attempt began.
    pub last_attempt_at: Option<String>,
}

/// Some records.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UrlList {
    /// The newest first.
    #[schema(value_type = Vec<UrlRecord>)]
    pub urls: Vec<Record>,
    /// Give this as `cursor` to go on; null at the end.
    pub next: Option<String>,
}

impl From<Listed> for UrlList {
    fn from(listed: Listed) -> Self {
        Self { urls: listed.records, next: listed.next.map(|next| next.to_string()) }
    }
}

/// Records that the cache no longer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forgotten {
    /// How many it had.
    pub forgotten: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_clock::Timestamp;
    use crawlway_store::inventory::{Metadata, PageSource, Processing, RecordId, Work};

    #[test]
    fn a_record_has_the_shape_that_is_described() {
        let time = Timestamp::from_millis(1_700_000_000_000);
        let record = Record {
            id: RecordId::of_url("http://a.example/"),
            url: "http://a.example/".to_owned(),
            status: Status::Completed,
            metadata: Metadata { page_source: PageSource::Text("<p>".to_owned()), ..Metadata::default() },
            processing: Processing { retry_count: 1, last_attempt_at: Some(time), error_message: None },
            additional_details: None,
            work: Some(Work { message_id: "m".to_owned(), requested_at: time, attempt: 2 }),
            created_at: time,
            updated_at: time,
        };
        let shape: UrlRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!((shape.id, shape.status.as_str()), (record.id.to_string(), "COMPLETED"));
        assert_eq!(shape.metadata.page_source.as_deref(), Some("<p>"));
        assert_eq!(shape.additional_details.unwrap()["crawlway"]["message_id"], "m");
    }
}
