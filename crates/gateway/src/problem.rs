//! Errors as problem details, `application/problem+json` (RFC 9457).

use crate::service::{self, ErrorKind, write_detail};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
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
    forbidden = FORBIDDEN, "forbidden", "Forbidden";
    foreign_host = FORBIDDEN, "foreign-host", "Host not allowed";
    foreign_origin = FORBIDDEN, "foreign-origin", "Origin not allowed";
    forged_link = FORBIDDEN, "forged-link", "Invalid link";
    expired_link = GONE, "expired-link", "Link expired";
    not_found = NOT_FOUND, "not-found", "Not found";
    no_route = NOT_FOUND, "no-route", "No such route";
    method = METHOD_NOT_ALLOWED, "method", "Method not allowed";
    conflict = CONFLICT, "conflict", "Conflict";
    too_large = PAYLOAD_TOO_LARGE, "too-large", "Content too large";
    media_type = UNSUPPORTED_MEDIA_TYPE, "media-type", "Unsupported media type";
    too_many_requests = TOO_MANY_REQUESTS, "too-many-requests", "Too many requests";
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

    /// Whether an object was not found, by a route that the gateway has.
    pub fn is_missing_object(&self) -> bool {
        self.kind == "urn:crawlway:problem:not-found"
    }

    /// Adds the name of the invalid field.
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into().into_boxed_str());
        self
    }

    /// The same problem without names and addresses of servers, which are for admins. The log has them.
    pub(crate) fn without_servers(self) -> Self {
        if !["broker-down", "unavailable"].iter().any(|kind| self.kind.ends_with(kind)) {
            return self;
        }
        tracing::warn!(detail = self.detail, "a server does not respond");
        Self { detail: "a server that this needs does not respond; retry later".to_owned(), ..self }
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_detail(f, self.field.as_deref(), &self.detail)
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

impl From<service::Error> for Problem {
    fn from(error: service::Error) -> Self {
        let service::Error { kind, detail, field } = error;
        let mut position = None;
        let problem = match kind {
            ErrorKind::Invalid => Self::invalid(detail),
            ErrorKind::Query { position: at } => {
                position = at;
                Self::query(detail)
            }
            ErrorKind::NotFound => Self::not_found(detail),
            ErrorKind::Conflict => Self::conflict(detail),
            ErrorKind::QueueFull => Self::queue_full(detail),
            ErrorKind::PublisherNotReady => Self::publisher_not_ready(detail),
            ErrorKind::BrokerDown => Self::broker_down(detail),
            ErrorKind::Unavailable => Self::unavailable(detail),
            ErrorKind::Internal => Self::internal(detail),
        };
        Self { field, position, ..problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Error;

    #[test]
    fn users_see_no_servers() {
        let shown = Problem::broker_down("Kafka at 10.1.2.3:9092 is unreachable").without_servers();
        assert!(!shown.detail.contains("10.1.2.3"), "{shown}");
        assert_eq!(Problem::not_found("no request `7`").without_servers().detail, "no request `7`");
    }

    #[test]
    fn an_error_is_the_same_in_a_response_and_on_the_command_line() {
        let query = Error::new(ErrorKind::Query { position: Some(5) }, "a quote is open").field("q");
        for (error, status, kind, text) in [
            (Error::invalid("expected 1 to 9").field("limit"), 400, "invalid", "`limit`: expected 1 to 9"),
            (query, 400, "query", "a quote is open"),
            (Error::not_found("no queue `a`").field("queue"), 404, "not-found", "no queue `a`"),
            (Error::new(ErrorKind::Conflict, "ended"), 409, "conflict", "ended"),
            (Error::new(ErrorKind::QueueFull, "full"), 503, "queue-full", "full"),
            (Error::new(ErrorKind::PublisherNotReady, "no"), 503, "publisher-not-ready", "no"),
            (Error::new(ErrorKind::BrokerDown, "down"), 503, "broker-down", "down"),
            (Error::unavailable("down"), 503, "unavailable", "down"),
            (Error::new(ErrorKind::Internal, "defect"), 500, "internal", "defect"),
        ] {
            assert_eq!((error.to_string().as_str(), error.is_invalid()), (text, status == 400));
            let (field, position) = (error.field.clone(), (kind == "query").then_some(5));
            let problem = Problem::from(error);
            assert_eq!((problem.to_string().as_str(), problem.status()), (text, status));
            assert_eq!(problem.kind, format!("urn:crawlway:problem:{kind}"));
            assert_eq!((problem.field, problem.position), (field, position));
        }
    }
}
