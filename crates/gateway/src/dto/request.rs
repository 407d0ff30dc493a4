//! Requests of users.

use crawlway_store::requests::{CrawlRequest, RequestPage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A user's request for one URL.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserRequest {
    /// Id.
    #[schema(example = "0198d1ba-c40a-7033-a53a-78e48800cefc")]
    pub id: String,
    /// URL; empty if only the answer is known.
    pub url: String,
    /// E-mail address of the user.
    pub email: String,
    /// `pending`, `completed` or `failed`.
    #[schema(example = "completed")]
    pub status: String,
    /// Scraped data of a completed request, any JSON; `{"errorMessage"}` of a failed one; null while it is pending.
    #[schema(value_type = serde_json::Value)]
    pub result: Option<Box<RawValue>>,
    /// Time of creation: ISO 8601 in UTC.
    pub created_at: String,
}

impl From<CrawlRequest> for UserRequest {
    fn from(request: CrawlRequest) -> Self {
        let CrawlRequest { id, url, email, status, result, created_at } = request;
        Self { id, url, email, status: status.to_string(), result, created_at }
    }
}

/// Several requests that were accepted together.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AcceptedRequests {
    /// In the order of the URLs.
    pub requests: Vec<UserRequest>,
}

/// List of requests, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RequestList {
    /// Requests.
    pub requests: Vec<UserRequest>,
    /// Pagination cursor; null at the end.
    pub next: Option<String>,
}

impl From<RequestPage> for RequestList {
    fn from(page: RequestPage) -> Self {
        let next = page.next.map(|cursor| cursor.to_string());
        Self { requests: page.requests.into_iter().map(UserRequest::from).collect(), next }
    }
}

/// Number of deleted requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedRequests {
    /// Number.
    pub deleted: u64,
}

/// Data of an event: a request has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestEvent {
    /// Id of the request.
    pub id: String,
    /// Its status from then on: `pending`, `completed`, `failed`, or `deleted`.
    pub status: String,
}
