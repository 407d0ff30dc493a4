//! What holds for every request: an id, a time limit, a line in the log, and an answer even if the code breaks.

use crate::{metrics::RequestMeter, problem::Problem};
use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken over from a caller.
const LONGEST_ID: usize = 64;

/// What the middleware needs.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) requests: Arc<RequestMeter>,
    pub(crate) time_limit: Duration,
}

/// Gives a request its id, bounds its time, and counts and logs how it went.
pub(crate) async fn frame(State(frame): State<Frame>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = given_id(request.headers()).unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // Counted by route and not by path, of which a stranger can make up any number.
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let running = AssertUnwindSafe(next.run(request)).catch_unwind();
    let answer = match tokio::time::timeout(frame.time_limit, running).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => {
            tracing::error!(request_id = id, %method, path, "the code that answers this request broke");
            Problem::internal("the log says more under this request's id").into_response()
        }
        Err(_) => Problem::took_too_long(format!(
            "there was no answer within {} s; what was begun may still be done",
            frame.time_limit.as_secs()
        ))
        .into_response(),
    };
    let mut answer = with_problem(answer, &id);
    if let Ok(id) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, id);
    }
    answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let (status, took) = (answer.status().as_u16(), started.elapsed());
    let route = route.unwrap_or_else(|| "none".to_owned());
    frame.requests.count(&method, route, status, took);
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    // That a part is missing is what a health check is for, and is logged where it is noticed.
    if status >= 500 && path != "/health/ready" {
        tracing::warn!(request_id = id, %method, path, status, took_ms, "request failed");
    } else {
        tracing::info!(request_id = id, %method, path, status, took_ms, "request");
    }
    answer
}

/// Refuses a body that says of itself that it is too large, before any of it is read.
pub(crate) async fn announced(State(most): State<usize>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    // What cannot be read as a number that large is refused elsewhere.
    let length = length.and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > most)) {
        return Problem::too_large(format!("the body is larger than {most} bytes; send less at a time"))
            .into_response();
    }
    next.run(request).await
}

/// The answer to a request that does not get as far as [`frame`].
pub(crate) fn problem_outside(problem: Problem) -> Response {
    let id = uuid::Uuid::now_v7().to_string();
    tracing::debug!(request_id = id, %problem, "request refused");
    let mut answer = problem.into_answer(&id);
    if let Ok(id) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, id);
    }
    answer
}

/// Writes the problem into the answer that carries one, keeping the headers that go with it.
fn with_problem(mut answer: Response, id: &str) -> Response {
    let Some(problem) = answer.extensions_mut().remove::<Problem>() else { return answer };
    let mut told = problem.into_answer(id);
    for (name, value) in answer.headers() {
        if !told.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            told.headers_mut().append(name, value.clone());
        }
    }
    told
}

/// The id that the caller gave, if it is one that cannot do harm in a log.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let fits = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
    (!id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(fits)).then(|| id.to_owned())
}
