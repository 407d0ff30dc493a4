//! JSON of the flow `inventory`: accepted URLs and URL records.

use crawlway_flows::inventory::Accepted;
use crawlway_store::inventory::{InventoryRecord, RecordPage, RecordStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Accepted URL, durably in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AcceptedUrl {
    /// Record id, derived from the URL.
    pub id: String,
    /// Path of the record.
    pub location: String,
    /// URL in normal form.
    pub url: String,
    /// Status: `QUEUED`.
    pub status: String,
    /// Item id of this request, as in its trail.
    pub message_id: String,
    /// Time of the request in ISO 8601.
    pub requested_at: String,
}

impl From<Accepted> for AcceptedUrl {
    fn from(accepted: Accepted) -> Self {
        let Accepted { id, url, message_id, requested_at } = accepted;
        Self {
            id: id.to_string(),
            location: format!("/api/urls/{id}"),
            url: url.into_string(),
            status: RecordStatus::Queued.to_string(),
            message_id,
            requested_at: requested_at.to_iso(),
        }
    }
}

/// URL record. Times are in ISO 8601.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlRecord {
    /// Record id: 24 hexadecimal digits, derived from the URL.
    #[serde(rename = "_id")]
    #[schema(rename = "_id")]
    pub id: String,
    /// URL in normal form.
    pub url: String,
    /// Status: `QUEUED`, `IN_PROGRESS`, `COMPLETED`, `FAILED_RETRYABLE` or `FAILED_PERMANENT`.
    pub status: String,
    /// Response of the last completed fetch.
    pub metadata: UrlMetadata,
    /// Processing state.
    pub processing: UrlProcessing,
    /// Further details of the response: `status_code`, `final_url`, `content_type`, `content_length`, `redirects`, and for
    /// text `charset` and `truncated`; `crawlway` has internal details.
    #[schema(value_type = Option<Object>)]
    pub additional_details: Option<Map<String, Value>>,
    /// Creation time.
    pub created_at: String,
    /// Time of the last change.
    pub updated_at: String,
    /// True if the record comes from the cache because the store is unavailable; omitted otherwise.
    #[serde(default)]
    #[schema(required = false)]
    pub stale: bool,
}

/// Response of a fetch.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlMetadata {
    /// Header values by name; several values of one name are an array.
    #[schema(value_type = Option<Object>)]
    pub headers: Option<Map<String, Value>>,
    /// Cookies by name: `{"value", "attributes"}`, or an array of these.
    #[schema(value_type = Option<Object>)]
    pub cookies: Option<Map<String, Value>>,
    /// Page source; null if it is not text. In lists only on request.
    pub page_source: Option<String>,
}

/// Processing state of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlProcessing {
    /// Number of failed attempts of the latest message.
    pub retry_count: u32,
    /// Error of the last attempt; null after a success.
    pub error_message: Option<String>,
    /// Start of the latest attempt.
    pub last_attempt_at: Option<String>,
}

/// List of URL records.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UrlList {
    /// Records, the newest first.
    #[schema(value_type = Vec<UrlRecord>)]
    pub urls: Vec<InventoryRecord>,
    /// Pagination cursor: the `cursor` of the next request; null at the end.
    pub next: Option<String>,
}

impl From<RecordPage> for UrlList {
    fn from(listed: RecordPage) -> Self {
        Self { urls: listed.records, next: listed.next.map(|next| next.to_string()) }
    }
}

/// Result of a cache invalidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Forgotten)]
pub struct CacheInvalidation {
    /// Number of removed cache entries.
    pub forgotten: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_clock::Timestamp;
    use crawlway_store::inventory::{LatestAttempt, Metadata, PageSource, Processing, RecordId};

    #[test]
    fn a_record_matches_its_schema() {
        let time = Timestamp::from_millis(1_700_000_000_000);
        let record = InventoryRecord {
            id: RecordId::of_url("http://a.example/"),
            url: "http://a.example/".to_owned(),
            status: RecordStatus::Completed,
            metadata: Metadata { page_source: PageSource::Text("<p>".to_owned()), ..Metadata::default() },
            processing: Processing { retry_count: 1, last_attempt_at: Some(time), error_message: None },
            additional_details: None,
            latest_attempt: Some(LatestAttempt {
                message_id: "m".to_owned(),
                requested_at: time,
                attempt: 2,
            }),
            created_at: time,
            updated_at: time,
        };
        let parsed: UrlRecord = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!((parsed.id, parsed.status.as_str()), (record.id.to_string(), "COMPLETED"));
        assert_eq!(parsed.metadata.page_source.as_deref(), Some("<p>"));
        assert_eq!(parsed.additional_details.unwrap()["crawlway"]["message_id"], "m");
    }
}
