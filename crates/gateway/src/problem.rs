//! Errors as problem details, `application/problem+json` (RFC 9457).

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use crawlway_broker::{BrokerError, NameError};
use crawlway_flow::ReplayError;
use crawlway_store::{StoreError, frontier::CrawlIdError, pages::SearchError};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};
use utoipa::ToSchema;

/// Content type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Value of `Retry-After` with a 503, in seconds.
const RETRY_AFTER: &str = "5";

/// Problem details of a failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Stable identifier of the kind of problem, such as `urn:crawlway:problem:not-found`.
    #[serde(rename = "type")]
    #[schema(example = "urn:crawlway:problem:invalid")]
    #[schema(value_type = String)]
    kind: Cow<'static, str>,
    /// Short name of the kind of problem.
    #[schema(value_type = String)]
    title: Cow<'static, str>,
    /// HTTP status code.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// Explanation of this occurrence, and what to do.
    detail: String,
    /// Request id, as in the header `x-request-id` and in the log.
    #[schema(value_type = String)]
    instance: Option<Box<str>>,
    /// Invalid field or parameter, such as `seeds[2]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    field: Option<Box<str>>,
    /// Position of the error in a query, in characters from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $status:ident, $kind:literal, $title:literal;)*) => {
        impl Problem {
            $($(#[$doc])* pub(crate) fn $name(detail: impl Into<String>) -> Self {
                Self::new(StatusCode::$status, concat!("urn:crawlway:problem:", $kind), $title, detail.into())
            })*
        }
    };
}

kinds! {
    invalid = BAD_REQUEST, "invalid", "Invalid request";
    query = BAD_REQUEST, "query", "Invalid query";
    unauthorised = UNAUTHORIZED, "unauthorised", "Unauthorized";
    foreign_host = FORBIDDEN, "foreign-host", "Host not allowed";
    foreign_origin = FORBIDDEN, "foreign-origin", "Origin not allowed";
    not_found = NOT_FOUND, "not-found", "Not found";
    method = METHOD_NOT_ALLOWED, "method", "Method not allowed";
    conflict = CONFLICT, "conflict", "Conflict";
    too_large = PAYLOAD_TOO_LARGE, "too-large", "Content too large";
    media_type = UNSUPPORTED_MEDIA_TYPE, "media-type", "Unsupported media type";
    internal = INTERNAL_SERVER_ERROR, "internal", "Internal server error";
    unavailable = SERVICE_UNAVAILABLE, "unavailable", "Service unavailable";
    starting = SERVICE_UNAVAILABLE, "starting", "Service starting";
    publisher_not_ready = SERVICE_UNAVAILABLE, "publisher-not-ready", "Publisher not ready";
    queue_full = SERVICE_UNAVAILABLE, "queue-full", "Queue full";
    broker_down = SERVICE_UNAVAILABLE, "broker-down", "Broker unavailable";
    overloaded = SERVICE_UNAVAILABLE, "overloaded", "Server overloaded";
    took_too_long = SERVICE_UNAVAILABLE, "took-too-long", "Request timed out";
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: String) -> Self {
        Self {
            kind: kind.into(),
            title: title.into(),
            status: status.as_u16(),
            detail,
            instance: None,
            field: None,
            position: None,
        }
    }

    /// HTTP status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Adds the name of the invalid field.
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into_boxed_str());
        self
    }

    /// Complete response, with the request id.
    pub(crate) fn with_request_id(mut self, request_id: &str) -> Response {
        self.instance = Some(request_id.into());
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Serialization of plain strings and numbers cannot fail.
        let mut response = Response::new(Body::from(serde_json::to_vec(&self).unwrap_or_default()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        response
    }
}

/// Checks the size of a page in a paginated list.
pub(crate) fn check_limit(limit: usize, max: usize) -> Result<(), Problem> {
    match limit {
        1.. if limit <= max => Ok(()),
        _ => Err(Problem::invalid(format!("expected 1 to {max}")).field("limit")),
    }
}

/// Start of a text from a request, on one line, for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) if !self.detail.contains(&**field) => write!(f, "`{field}`: {}", self.detail),
            _ => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for Problem {}

/// Response without a body: the middleware writes it, since it knows the request id.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { .. } => Self::invalid(error.to_string()),
            _ => Self::unavailable(error.to_string()),
        }
    }
}

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::UnknownQueue { .. } => Self::not_found(error.to_string()).field("queue"),
            BrokerError::Unavailable { .. } | BrokerError::Closed => Self::unavailable(error.to_string()),
            _ => Self::conflict(error.to_string()),
        }
    }
}

impl From<ReplayError> for Problem {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Broker(error) => error.into(),
            ReplayError::Store(error) => error.into(),
        }
    }
}

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        let detail = error.to_string();
        match error {
            SearchError::Query { at, .. } => {
                let position = u32::try_from(at).ok();
                Self { position, ..Self::query(detail).field("q") }
            }
            SearchError::Store(error) => error.into(),
            _ => Self::internal(detail),
        }
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        Self::invalid(error.to_string()).field("queue")
    }
}

impl From<CrawlIdError> for Problem {
    fn from(error: CrawlIdError) -> Self {
        Self::not_found(error.to_string()).field("name")
    }
}
