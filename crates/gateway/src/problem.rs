//! Errors as `application/problem+json` (RFC 9457): what went wrong, and what to do about it.

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

/// The content type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// After how many seconds something that is out of order is worth another try.
const RETRY_AFTER: &str = "5";

/// What went wrong, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Which kind of problem it is, by a name that never changes: `urn:crawlway:problem:not-found`.
    #[serde(rename = "type")]
    #[schema(example = "urn:crawlway:problem:invalid")]
    #[schema(value_type = String)]
    kind: Cow<'static, str>,
    /// The kind in a few words.
    #[schema(value_type = String)]
    title: Cow<'static, str>,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What went wrong this time, and what to do.
    detail: String,
    /// The id of the request, as in the header `x-request-id` and in the log.
    #[schema(value_type = String)]
    instance: Option<Box<str>>,
    /// The field or parameter that is wrong, such as `seeds[2]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    field: Option<Box<str>>,
    /// Where in a query it is wrong, in characters from 1.
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
    invalid = BAD_REQUEST, "invalid", "What was asked for cannot be";
    query = BAD_REQUEST, "query", "The query cannot be read";
    unauthorised = UNAUTHORIZED, "unauthorised", "The token is missing or wrong";
    foreign_host = FORBIDDEN, "foreign-host", "The request is not meant for this host";
    foreign_origin = FORBIDDEN, "foreign-origin", "Another site's page must not do this";
    not_found = NOT_FOUND, "not-found", "There is no such thing";
    method = METHOD_NOT_ALLOWED, "method", "The method is not for this address";
    conflict = CONFLICT, "conflict", "It cannot be done as things are";
    too_large = PAYLOAD_TOO_LARGE, "too-large", "The body is too large";
    media_type = UNSUPPORTED_MEDIA_TYPE, "media-type", "The body is of another type";
    internal = INTERNAL_SERVER_ERROR, "internal", "Something unexpected went wrong";
    unavailable = SERVICE_UNAVAILABLE, "unavailable", "Something that is needed is out of order";
    starting = SERVICE_UNAVAILABLE, "starting", "The process is not ready yet";
    publisher_not_ready = SERVICE_UNAVAILABLE, "publisher-not-ready", "Nothing can be published yet";
    queue_full = SERVICE_UNAVAILABLE, "queue-full", "The queue has as many as it takes";
    broker_down = SERVICE_UNAVAILABLE, "broker-down", "The broker does not take anything";
    overloaded = SERVICE_UNAVAILABLE, "overloaded", "There are more connections than can be served";
    took_too_long = SERVICE_UNAVAILABLE, "took-too-long", "The answer was not ready in time";
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

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Names the field that is wrong.
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into_boxed_str());
        self
    }

    /// The whole answer, with the id of the request in it.
    pub(crate) fn into_answer(mut self, request_id: &str) -> Response {
        self.instance = Some(request_id.into());
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // Nothing in it can fail to be written.
        let mut answer = Response::new(Body::from(serde_json::to_vec(&self).unwrap_or_default()));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        answer
    }
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

/// The body is written where the id of the request is known, in `requests.rs`.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = status;
        answer.extensions_mut().insert(self);
        answer
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
