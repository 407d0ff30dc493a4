//! `/api/urls`: publishing of URLs, and their records.

use crate::{
    dto::{AcceptedUrl, UrlList, UrlRecord},
    extract::{JsonBody, PathParams, QueryParams},
    inventory::{CurrentRecord, InventoryService},
    problem::Problem,
    routes::{default_limit, uncancelled},
    service::{check_limit, excerpt, normal_url},
};
use axum::{
    Json,
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use crawlway_clock::Timestamp;
use crawlway_store::inventory::{
    MAX_PAGE_SIZE, MAX_PAGE_SIZE_WITH_SOURCE, RecordId, RecordQuery, RecordStatus,
};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// Header `Warning` of a response that may be out of date (RFC 7234).
const STALE: HeaderValue = HeaderValue::from_static("110 crawlway \"response is stale\"");

/// URL to fetch.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUrl {
    /// URL with http or https and a public host, without credentials.
    #[schema(example = "https://example.org/")]
    url: String,
}

/// Submit a URL; a worker fetches it and stores its headers, cookies and source
///
/// The response follows the publisher confirm and does not wait for the record store. A URL that is submitted again is fetched
/// again, into the same record.
#[utoipa::path(post, path = "/api/urls", operation_id = "addUrl", tag = "urls", request_body = NewUrl, responses(
    (status = ACCEPTED, body = AcceptedUrl, description = "Accepted, durably in the queue",
        headers(("location" = String, description = "Path of the record"))),
    (status = BAD_REQUEST, description = "Invalid URL: empty, too long, malformed, not http or https, without a host, with credentials, or a forbidden address"),
    (status = SERVICE_UNAVAILABLE, description = "`publisher-not-ready`, `queue-full` or `broker-down`: retry after `Retry-After`",
        headers(("retry-after" = u32, description = "Delay in seconds"))),
))]
pub(super) async fn add(
    State(inventory): State<InventoryService>,
    JsonBody(NewUrl { url }): JsonBody<NewUrl>,
) -> Result<impl IntoResponse, Problem> {
    let accept = async move { inventory.accept(&url).await };
    let accepted = uncancelled(accept, "the URL may or may not have been accepted; send it again").await?;
    let location = AppendHeaders([(header::LOCATION, accepted.location.clone())]);
    Ok((StatusCode::ACCEPTED, location, Json(accepted)))
}

/// Submit a URL, as `POST /api/urls`
#[utoipa::path(post, path = "/", operation_id = "addUrlAtRoot", tag = "urls", request_body = NewUrl, responses(
    (status = ACCEPTED, body = AcceptedUrl, description = "Accepted, durably in the queue",
        headers(("location" = String, description = "Path of the record"))),
))]
pub(super) async fn add_at_root(
    inventory: State<InventoryService>,
    body: JsonBody<NewUrl>,
) -> Result<impl IntoResponse, Problem> {
    add(inventory, body).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FindQuery {
    /// URL, for its record instead of a list.
    url: Option<String>,
    /// Earliest creation time in ISO 8601.
    from: Option<String>,
    /// Exclusive latest creation time in ISO 8601.
    to: Option<String>,
    /// Status.
    status: Option<String>,
    /// Pagination cursor: `next` of the previous list.
    cursor: Option<String>,
    /// Maximum number of records, 1 to 1000; with sources 1 to 10.
    limit: Option<usize>,
    /// Whether the list contains the page sources.
    #[serde(default)]
    #[param(default = false)]
    source: bool,
}

/// Record, or list of records.
#[derive(Debug, ToSchema)]
#[schema(as = UrlRecordOrList)]
#[allow(dead_code, clippy::large_enum_variant, reason = "used for the OpenAPI schema alone")]
pub(super) enum OneOrMany {
    #[schema(title = "one")]
    One(UrlRecord),
    #[schema(title = "many")]
    Many(UrlList),
}

/// Get the record of a URL (`url`), or list records, the newest first
///
/// A finished record may come from the cache of this process; the header `Age` has its age. During an outage of the store the
/// cached record is served with `"stale": true` and the header `Warning: 110`. A list always comes from the store.
#[utoipa::path(get, path = "/api/urls", operation_id = "findUrls", tag = "urls", params(FindQuery), responses(
    (status = OK, body = inline(OneOrMany), description = "Record, or list of records",
        headers(("age" = u64, description = "Seconds since the record was read from the store"))),
    (status = NOT_FOUND, description = "Unknown URL"),
    (status = SERVICE_UNAVAILABLE, description = "Record store unavailable, and no cached record"),
))]
pub(super) async fn find(
    State(inventory): State<InventoryService>,
    QueryParams(query): QueryParams<FindQuery>,
) -> Result<Response, Problem> {
    if let Some(url) = &query.url {
        query.has_no_filter()?;
        let record = inventory.record(record_id(url)?).await?;
        return Ok(respond(record.ok_or_else(|| unknown(url).field("url"))?));
    }
    let wanted = query.wanted()?;
    Ok(Json(inventory.list(&wanted).await?).into_response())
}

/// Get a record by id
#[utoipa::path(get, path = "/api/urls/{id}", operation_id = "getUrl", tag = "urls",
    params(("id" = String, Path, description = "Record id")), responses(
    (status = OK, body = UrlRecord,
        headers(("age" = u64, description = "Seconds since the record was read from the store"))),
    (status = NOT_FOUND, description = "Unknown record"),
))]
pub(super) async fn one(
    State(inventory): State<InventoryService>,
    PathParams(id): PathParams<String>,
) -> Result<Response, Problem> {
    let parsed = id.parse::<RecordId>().map_err(|error| Problem::not_found(error.to_string()).field("id"))?;
    let record = inventory.record(parsed).await?;
    Ok(respond(record.ok_or_else(|| unknown(&id).field("id"))?))
}

fn respond(record: CurrentRecord) -> Response {
    let mut response = record.json().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::AGE, HeaderValue::from(record.age.as_secs()));
    if record.stale {
        headers.insert(header::WARNING, STALE);
    }
    response
}

fn unknown(what: &str) -> Problem {
    Problem::not_found(format!(
        "there is no record of `{}`; submit a URL with `POST /api/urls`",
        excerpt(what)
    ))
}

/// Record id of a URL.
pub(super) fn record_id(url: &str) -> Result<RecordId, Problem> {
    Ok(RecordId::of_url(normal_url(url)?.as_str()))
}

impl FindQuery {
    fn has_no_filter(&self) -> Result<(), Problem> {
        let filters = [
            ("from", self.from.is_some()),
            ("to", self.to.is_some()),
            ("status", self.status.is_some()),
            ("cursor", self.cursor.is_some()),
            ("limit", self.limit.is_some()),
        ];
        match filters.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((name, _)) => {
                Err(Problem::invalid("cannot be combined with `url`; leave one of them out").field(name))
            }
        }
    }

    fn wanted(&self) -> Result<RecordQuery, Problem> {
        let time = |name: &'static str, text: &Option<String>| {
            let read = |text: &String| {
                Timestamp::from_iso(text).ok_or_else(|| {
                    Problem::invalid("expected ISO 8601 such as `2026-11-15T09:30:00Z`").field(name)
                })
            };
            text.as_ref().map(read).transpose()
        };
        let status = self.status.as_ref().map(|word| {
            RecordStatus::from_name(word).ok_or_else(|| {
                let words = RecordStatus::ALL.map(RecordStatus::as_str).join(", ");
                Problem::invalid(format!("expected one of {words}")).field("status")
            })
        });
        let cursor = self.cursor.as_ref().map(|cursor| {
            cursor.parse().map_err(|error| Problem::invalid(format!("{error}")).field("cursor"))
        });
        let max = if self.source { MAX_PAGE_SIZE_WITH_SOURCE } else { MAX_PAGE_SIZE };
        let limit = self.limit.unwrap_or(default_limit().min(max));
        check_limit(limit, max)?;
        Ok(RecordQuery {
            from: time("from", &self.from)?,
            to: time("to", &self.to)?,
            status: status.transpose()?,
            after: cursor.transpose()?,
            limit,
            with_source: self.source,
        })
    }
}
