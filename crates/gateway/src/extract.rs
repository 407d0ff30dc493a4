//! Extractors for bodies and parameters, whose errors name the field.

use crate::problem::Problem;
use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::BytesRejection},
};
use crawlway_flows::Object;
use http::{StatusCode, header, request::Parts};
use serde::de::DeserializeOwned;

/// JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        // Also CSRF protection: an HTML form cannot send JSON.
        if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
            return Err(Problem::media_type("send JSON, with `Content-Type: application/json`"));
        }
        let body = Bytes::from_request(request, state).await.map_err(body_problem)?;
        let mut json = serde_json::Deserializer::from_slice(&body);
        let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            let problem = Problem::invalid(error.into_inner().to_string());
            if field == "." { problem } else { problem.field(field) }
        })?;
        json.end().map_err(|error| Problem::invalid(error.to_string()))?;
        Ok(Self(value))
    }
}

/// No body: what is in one would be ignored.
#[derive(Debug)]
pub(crate) struct NoBody;

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await.map_err(body_problem)?;
        if body.is_empty() {
            Ok(Self)
        } else {
            Err(Problem::invalid("expected no body, but parameters of the URL"))
        }
    }
}

fn body_problem(rejection: BytesRejection) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Problem::too_large("the body exceeds the maximum size; split the request");
    }
    Problem::invalid(format!("reading the body failed: {}", rejection.body_text()))
}

/// Query parameters.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(rejection) => {
                // `Failed to deserialize query string: limit: invalid digit found in string`
                let text = rejection.body_text();
                let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
                let problem = Problem::invalid(format!("invalid parameters: {text}"));
                let name = text.split_once(": ").map(|(name, _)| name).filter(|name| !name.contains(' '));
                let unknown = text.split('`').nth(1);
                Err(match name.or(unknown) {
                    Some(field) => problem.field(field),
                    None => problem,
                })
            }
        }
    }
}

/// Path parameters.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::not_found(rejection.body_text())),
        }
    }
}
