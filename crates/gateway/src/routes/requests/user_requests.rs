//! `/api/requests`: a user's requests.

use crate::{
    caller::Caller,
    dto::{AcceptedRequests, DeletedRequests, RequestList, UserRequest},
    extract::{JsonBody, NoBody, PathParams, QueryParams},
    problem::Problem,
    requests::RequestService,
    routes::{default_limit, uncancelled},
    service::{check_limit, excerpt},
    state::GatewayState,
};
use axum::{
    Extension, Json,
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use crawlway_clock::{DURATION_SYNTAX, parse_duration};
use crawlway_store::requests::{Email, MAX_PAGE_SIZE, RequestKey, RequestQuery};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// One URL or several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRequest {
    /// URL with http or https and a public host, without credentials.
    #[schema(example = "https://example.org/")]
    url: Option<String>,
    /// Up to 1000 URLs instead of one.
    urls: Option<Vec<String>>,
    /// E-mail address of the user, for administrators.
    email: Option<String>,
}

/// One accepted request, or several.
#[derive(Debug, serde::Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = AcceptedRequestOrRequests)]
#[allow(dead_code, reason = "used for the OpenAPI schema alone")]
pub(super) enum OneOrMany {
    #[schema(title = "one")]
    One(UserRequest),
    #[schema(title = "many")]
    Many(AcceptedRequests),
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UserQuery {
    /// E-mail address of the user, for administrators.
    pub(super) email: Option<String>,
}

/// No parameters: a user that is named in one would be ignored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct OneQuery {
    /// E-mail address of the user, for administrators.
    email: Option<String>,
    /// Long poll: wait this long for the end of a pending request, such as `30s`. The maximum is 1 s less than `gateway.request_timeout`.
    wait: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// E-mail address of the user, for administrators.
    email: Option<String>,
    /// Status: `pending`, `completed` or `failed`.
    status: Option<String>,
    /// Pagination cursor: `next` of the previous list.
    cursor: Option<String>,
    /// Maximum number of requests, 1 to 100.
    #[serde(default = "default_limit")]
    #[param(default = 50, minimum = 1, maximum = 100)]
    limit: usize,
}

/// Request one URL (`url`) or several (`urls`); a worker fetches each and answers
///
/// The response follows once all are stored durably. With the header `Idempotency-Key` a repeated call returns the requests of the first.
#[utoipa::path(post, path = "/api/requests", operation_id = "addRequest", tag = "requests", request_body = NewRequest,
    params(("idempotency-key" = Option<String>, Header, description = "Text of up to 255 bytes, unique among the user's calls")),
    responses(
    (status = ACCEPTED, body = inline(OneOrMany), description = "Accepted",
        headers(("location" = String, description = "Path of the request, if there is one"))),
    (status = BAD_REQUEST, description = "Invalid URL or e-mail address"),
    (status = CONFLICT, description = "The idempotency key was used for another URL"),
    (status = SERVICE_UNAVAILABLE, description = "Store or broker unavailable: retry after `Retry-After`",
        headers(("retry-after" = u32, description = "Delay in seconds"))),
))]
pub(super) async fn add(
    State(state): State<GatewayState>,
    Extension(service): Extension<RequestService>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(NoQuery {}): QueryParams<NoQuery>,
    JsonBody(NewRequest { url, urls, email }): JsonBody<NewRequest>,
) -> Result<Response, Problem> {
    let email = service.user(&caller, email.as_deref())?;
    let key = headers.get("idempotency-key").map(|key| {
        let invalid = || Problem::invalid("expected visible ASCII").field("idempotency-key");
        key.to_str().map(str::to_owned).map_err(|_| invalid())
    });
    let key = key.transpose()?;
    if headers.get_all("idempotency-key").iter().count() > 1 {
        return Err(Problem::invalid("expected one").field("idempotency-key"));
    }
    let is_one = url.is_some();
    let urls = match (url, urls) {
        (Some(url), None) => vec![url],
        (None, Some(urls)) => urls,
        _ => return Err(Problem::invalid("expected either `url` or `urls`").field("url")),
    };
    let store = state.connected(&service.store)?;
    let submit = async move { service.submit(store, email.as_str(), &urls, key.as_deref()).await };
    let submitted = uncancelled(submit, "the requests may or may not have been accepted; list them").await?;
    let mut requests: Vec<UserRequest> =
        submitted.into_iter().map(|submitted| submitted.request.into()).collect();
    if is_one && let Some(request) = requests.pop() {
        let location = AppendHeaders([(header::LOCATION, format!("/api/requests/{}", request.id))]);
        return Ok((StatusCode::ACCEPTED, location, Json(request)).into_response());
    }
    Ok((StatusCode::ACCEPTED, Json(AcceptedRequests { requests })).into_response())
}

/// List a user's requests, the newest first
#[utoipa::path(get, path = "/api/requests", operation_id = "listRequests", tag = "requests", params(ListQuery), responses(
    (status = OK, body = RequestList),
))]
pub(super) async fn list(
    State(state): State<GatewayState>,
    Extension(service): Extension<RequestService>,
    caller: Caller,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<RequestList>, Problem> {
    let (store, email) = service.stored_user(&state, &caller, query.email.as_deref()).await?;
    check_limit(query.limit, MAX_PAGE_SIZE)?;
    let status = query
        .status
        .map(|name| name.parse().map_err(|error: String| Problem::invalid(error).field("status")));
    let after = query
        .cursor
        .map(|cursor| cursor.parse().map_err(|error| Problem::invalid(format!("{error}")).field("cursor")));
    let wanted = RequestQuery { status: status.transpose()?, after: after.transpose()?, limit: query.limit };
    let page = store.list(email.as_str(), &wanted).await.map_err(crate::service::Error::from)?;
    Ok(Json(page.into()))
}

/// Get a request; with `wait`, as soon as it has ended
#[utoipa::path(get, path = "/api/requests/{id}", operation_id = "getRequest", tag = "requests",
    params(("id" = String, Path, description = "Request id"), OneQuery), responses(
    (status = OK, body = UserRequest),
    (status = NOT_FOUND, description = "The user has no such request"),
))]
pub(super) async fn one(
    State(state): State<GatewayState>,
    Extension(service): Extension<RequestService>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<OneQuery>,
) -> Result<Json<UserRequest>, Problem> {
    let (store, email) = service.stored_user(&state, &caller, query.email.as_deref()).await?;
    let wait = query.wait.map(|text| {
        let invalid = || Problem::invalid(format!("expected {DURATION_SYNTAX}")).field("wait");
        parse_duration(&text).ok_or_else(invalid)
    });
    let wait = wait.transpose()?.unwrap_or(Duration::ZERO);
    let found = service.get(&*store, &RequestKey::new(email.as_str(), &*id), wait).await?;
    found.map(|request| Json(request.into())).ok_or_else(|| unknown(&email, &id))
}

/// Delete a request; its answer is ignored
#[utoipa::path(delete, path = "/api/requests/{id}", operation_id = "deleteRequest", tag = "requests",
    params(("id" = String, Path, description = "Request id"), UserQuery), responses(
    (status = OK, body = DeletedRequests),
    (status = NOT_FOUND, description = "The user has no such request"),
))]
pub(super) async fn delete(
    State(state): State<GatewayState>,
    Extension(service): Extension<RequestService>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<UserQuery>,
) -> Result<Json<DeletedRequests>, Problem> {
    let (store, email) = service.stored_user(&state, &caller, query.email.as_deref()).await?;
    let key = RequestKey::new(email.as_str(), &*id);
    let delete = async move { Ok(store.delete(&key).await?) };
    match uncancelled(delete, "the request may or may not be deleted").await? {
        true => Ok(Json(DeletedRequests { deleted: 1 })),
        false => Err(unknown(&email, &id)),
    }
}

/// Delete all requests of a user
#[utoipa::path(delete, path = "/api/requests", operation_id = "deleteRequests", tag = "requests", params(UserQuery), responses(
    (status = OK, body = DeletedRequests),
))]
pub(super) async fn delete_all(
    State(state): State<GatewayState>,
    Extension(service): Extension<RequestService>,
    caller: Caller,
    QueryParams(query): QueryParams<UserQuery>,
    _: NoBody,
) -> Result<Json<DeletedRequests>, Problem> {
    let (store, email) = service.stored_user(&state, &caller, query.email.as_deref()).await?;
    let delete = async move { Ok(store.delete_all(email.as_str()).await?) };
    let deleted = uncancelled(delete, "some of the requests may not be deleted; repeat the call").await?;
    Ok(Json(DeletedRequests { deleted }))
}

fn unknown(email: &Email, id: &str) -> Problem {
    Problem::not_found(format!("{email} has no request `{}`", excerpt(id))).field("id")
}
