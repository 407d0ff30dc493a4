//! Middleware of all requests: request id, timeout, access log, metrics, and a 500 after a panic.

use crate::{caller::CallerSlot, metrics::RequestMeter, problem::Problem};
use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use crawlway_store::TokenRole;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

/// Header with the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a request id from a client.
const MAX_ID_LENGTH: usize = 64;

/// State of [`track`].
#[derive(Debug, Clone)]
pub(crate) struct Tracking {
    pub(crate) requests: Arc<RequestMeter>,
    pub(crate) timeout: Duration,
}

/// Assigns the request id, applies the timeout, and records and logs the response.
pub(crate) async fn track(State(tracking): State<Tracking>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = client_id(request.headers()).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let query = request.uri().query().map(str::to_owned);
    // Counted by route: the number of paths is unbounded.
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let caller = CallerSlot::default();
    request.extensions_mut().insert(caller.clone());
    let running = AssertUnwindSafe(next.run(request)).catch_unwind();
    let response = match tokio::time::timeout(tracking.timeout, running).await {
        Ok(Ok(response)) => response,
        Ok(Err(_)) => {
            tracing::error!(request_id = id, %method, path, "request handler panicked");
            Problem::internal("search the log for this request id").into_response()
        }
        Err(_) => Problem::took_too_long(format!(
            "no response within {} s; the operation may still complete",
            tracking.timeout.as_secs()
        ))
        .into_response(),
    };
    let is_user = caller.0.get().is_some_and(|caller| caller.role == TokenRole::User);
    let mut response = with_problem(response, &id, is_user);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let (status, took) = (response.status().as_u16(), started.elapsed());
    let route = route.unwrap_or_else(|| "none".to_owned());
    audit(&caller, &id, &method, &route, &path, query.as_deref(), status);
    tracking.requests.count(&method, route, status, took);
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    // A dependency that is not ready is logged where it is noticed.
    if status >= 500 && path != "/health/ready" {
        tracing::warn!(request_id = id, %method, path, status, took_ms, "request failed");
    } else {
        tracing::info!(request_id = id, %method, path, status, took_ms, "request");
    }
    response
}

/// Writes the audit line of a change by a client with a token. It is logged at every level but `off`.
fn audit(
    CallerSlot(caller): &CallerSlot,
    request_id: &str,
    method: &Method,
    route: &str,
    path: &str,
    query: Option<&str>,
    status: u16,
) {
    let Some(caller) = caller.get().filter(|_| !method.is_safe()) else { return };
    let Some(token) = &caller.token_id else { return };
    let email = caller.email.as_deref();
    tracing::info!(target: "crawlway::audit", token, email, %method, route, path, query, status, request_id, "change");
}

/// Rejects a body whose `Content-Length` exceeds the maximum, before any of it is read.
pub(crate) async fn check_content_length(State(max): State<usize>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    // hyper rejects an invalid length.
    let length = length.and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > max)) {
        return Problem::too_large(format!("the body exceeds {max} bytes; split the request"))
            .into_response();
    }
    next.run(request).await
}

/// Response to a request that is rejected before [`track`].
pub(crate) fn reject(problem: Problem) -> Response {
    let id = uuid::Uuid::now_v7().to_string();
    tracing::debug!(request_id = id, %problem, "request rejected");
    let mut response = problem.with_request_id(&id);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Writes the body of a response that carries a [`Problem`], and keeps its headers.
fn with_problem(mut response: Response, id: &str, is_user: bool) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let problem = if is_user { problem.without_servers() } else { problem };
    let mut written = problem.with_request_id(id);
    for (name, value) in response.headers() {
        if !written.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            written.headers_mut().append(name, value.clone());
        }
    }
    written
}

/// Request id from the client, if it is safe in a log.
fn client_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let fits = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    (!id.is_empty() && id.len() <= MAX_ID_LENGTH && id.bytes().all(fits)).then(|| id.to_owned())
}
