//! Paginated lists of requests.

use super::{CrawlRequest, RequestStatus};
use std::{fmt, str::FromStr};

/// Maximum page size. A page has the results of its requests.
pub const MAX_PAGE_SIZE: usize = 100;

/// Query for a page of a user's requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestQuery {
    /// With this status.
    pub status: Option<RequestStatus>,
    /// Cursor of the previous page.
    pub after: Option<RequestCursor>,
    /// Page size, capped at [`MAX_PAGE_SIZE`].
    pub limit: usize,
}

/// A page of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPage {
    /// The requests, newest first.
    pub requests: Vec<CrawlRequest>,
    /// Cursor of the next page; `None` at the end.
    pub next: Option<RequestCursor>,
}

impl RequestPage {
    /// A page of up to `max` requests, from a query for `max + 1`: the extra one shows that there is a next page.
    pub fn from_rows(mut requests: Vec<CrawlRequest>, max: usize) -> Self {
        let more = requests.len() > max;
        requests.truncate(max);
        let next = requests.last().filter(|_| more).map(RequestCursor::at);
        Self { requests, next }
    }
}

/// Pagination cursor: the last request of a page. Its text is `MILLISECONDS-ID`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCursor {
    /// Creation time in milliseconds.
    pub created_ms: u64,
    /// Id of the request.
    pub id: String,
}

impl RequestCursor {
    /// Cursor of a page that ends with this request.
    pub fn at(request: &CrawlRequest) -> Self {
        Self { created_ms: request.created().as_millis(), id: request.id.clone() }
    }
}

/// Error of a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a cursor; use the one of the previous page")]
pub struct InvalidRequestCursor(String);

impl fmt::Display for RequestCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_ms, self.id)
    }
}

impl FromStr for RequestCursor {
    type Err = InvalidRequestCursor;

    fn from_str(text: &str) -> Result<Self, InvalidRequestCursor> {
        let parsed = text
            .split_once('-')
            .and_then(|(created, id)| Some(Self { created_ms: created.parse().ok()?, id: id.to_owned() }));
        parsed.ok_or_else(|| InvalidRequestCursor(text.chars().take(80).collect()))
    }
}
