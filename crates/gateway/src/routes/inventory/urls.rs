//! `/api/urls`: asking for URLs, and reading their records.

use crate::{
    extract::{JsonBody, PathOf, QueryOf},
    inventory::{Found, Inventory},
    problem::Problem,
    shape::{AcceptedUrl, UrlList, UrlRecord},
};
use axum::{
    Json,
    extract::State,
    response::{AppendHeaders, IntoResponse, Response},
};
use crawlway_clock::Timestamp;
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_store::inventory::{MOST_LISTED, MOST_WITH_SOURCE, RecordId, Status, Wanted};
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// How many records a list has for which nothing is said.
const FEW: usize = 50;

/// Says of an answer that it may be out of date, as caches say it.
const STALE: HeaderValue = HeaderValue::from_static("110 crawlway \"response is stale\"");

/// A URL to ask for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewUrl {
    /// http or https, with a host that everybody can reach, without user name and password.
    #[schema(example = "https://example.org/")]
    url: String,
}

/// Ask for a URL: a worker fetches it and stores its headers, cookies and source
///
/// Answered when the broker has it durably; the store of the records is not waited for. A URL that is asked for again is
/// fetched again, into the same record.
#[utoipa::path(post, path = "/api/urls", operation_id = "addUrl", tag = "urls", request_body = NewUrl, responses(
    (status = ACCEPTED, body = AcceptedUrl, description = "It is durably in the queue",
        headers(("location" = String, description = "Where its record is"))),
    (status = BAD_REQUEST, body = Problem, content_type = "application/problem+json",
        description = "It is empty, too long or no URL, not http or https, has no host or a password, or an address that must not be asked"),
    (status = SERVICE_UNAVAILABLE, body = Problem, content_type = "application/problem+json",
        description = "`publisher-not-ready`, `queue-full` or `broker-down`: ask again after `Retry-After`",
        headers(("retry-after" = u32, description = "After how many seconds"))),
))]
pub(super) async fn add(
    State(inventory): State<Inventory>,
    JsonBody(NewUrl { url }): JsonBody<NewUrl>,
) -> Result<impl IntoResponse, Problem> {
    // Not cut in half by who goes away, or by the time limit.
    let accepting = tokio::spawn(async move { inventory.accept(&url).await }).await;
    let accepted = accepting.map_err(|error| {
        tracing::error!(%error, "accepting a URL broke");
        Problem::internal("the URL may or may not have been accepted; ask again")
    })??;
    let location = AppendHeaders([(header::LOCATION, accepted.location.clone())]);
    Ok((StatusCode::ACCEPTED, location, Json(accepted)))
}

/// Ask for a URL, as `/api/urls` does
#[utoipa::path(post, path = "/", operation_id = "addUrlAtRoot", tag = "urls", request_body = NewUrl, responses(
    (status = ACCEPTED, body = AcceptedUrl, description = "It is durably in the queue",
        headers(("location" = String, description = "Where its record is"))),
))]
pub(super) async fn add_at_root(
    inventory: State<Inventory>,
    body: JsonBody<NewUrl>,
) -> Result<impl IntoResponse, Problem> {
    add(inventory, body).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FindQuery {
    /// The record of this URL, and no list.
    url: Option<String>,
    /// Only those made at this time or later, in ISO 8601.
    from: Option<String>,
    /// Only those made before this time, in ISO 8601.
    to: Option<String>,
    /// Only those of this status.
    status: Option<String>,
    /// Go on after the page that had this as its `next`.
    cursor: Option<String>,
    /// At most so many, 1 to 1000; with sources 1 to 10.
    limit: Option<usize>,
    /// Whether the sources of the pages are in the list.
    #[serde(default)]
    #[param(default = false)]
    source: bool,
}

/// One record, or several.
#[derive(Debug, ToSchema)]
#[schema(as = UrlRecordOrList)]
#[allow(
    dead_code,
    clippy::large_enum_variant,
    reason = "only described: one is answered from bytes, the other by itself"
)]
pub(super) enum OneOrMany {
    #[schema(title = "one")]
    One(UrlRecord),
    #[schema(title = "many")]
    Many(UrlList),
}

/// The record of a URL (`url`), or a list of records by when they were made, the newest first
///
/// A finished record may come from the cache of this process; `Age` says how old it is. When the store cannot be asked, what
/// the cache has is answered and marked: `"stale": true` in the record, and the header `Warning: 110`. A list always comes
/// from the store.
#[utoipa::path(get, path = "/api/urls", operation_id = "findUrls", tag = "urls", params(FindQuery), responses(
    (status = OK, body = inline(OneOrMany), description = "The record, or the list",
        headers(("age" = u64, description = "How many seconds ago the record was read from the store"))),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "Nobody has asked for this URL"),
    (status = SERVICE_UNAVAILABLE, body = Problem, content_type = "application/problem+json",
        description = "The store cannot be asked, and the cache has nothing of it"),
))]
pub(super) async fn find(
    State(inventory): State<Inventory>,
    QueryOf(query): QueryOf<FindQuery>,
) -> Result<Response, Problem> {
    if let Some(url) = &query.url {
        query.has_no_filter()?;
        let found = inventory.record(id_of(url)?).await?;
        return Ok(answered(found.ok_or_else(|| nobody_asked(url).field("url"))?));
    }
    let wanted = query.wanted()?;
    Ok(Json(inventory.list(&wanted).await?).into_response())
}

/// The record with this id
#[utoipa::path(get, path = "/api/urls/{id}", operation_id = "getUrl", tag = "urls",
    params(("id" = String, Path, description = "The record's id")), responses(
    (status = OK, body = UrlRecord,
        headers(("age" = u64, description = "How many seconds ago it was read from the store"))),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such record"),
))]
pub(super) async fn one(
    State(inventory): State<Inventory>,
    PathOf(id): PathOf<String>,
) -> Result<Response, Problem> {
    let known = id.parse::<RecordId>().map_err(|error| Problem::not_found(error.to_string()).field("id"))?;
    let found = inventory.record(known).await?;
    Ok(answered(found.ok_or_else(|| nobody_asked(&id).field("id"))?))
}

fn answered(found: Found) -> Response {
    let mut answer = found.json().into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::AGE, HeaderValue::from(found.age.as_secs()));
    if found.stale {
        headers.insert(header::WARNING, STALE);
    }
    answer
}

fn nobody_asked(what: &str) -> Problem {
    let what: String = what.chars().take(200).collect();
    Problem::not_found(format!("there is no record of `{what}`; `POST /api/urls` asks for a URL"))
}

/// The id of the record of a URL.
pub(super) fn id_of(url: &str) -> Result<RecordId, Problem> {
    let url = normalise(url, &UrlOptions::default())
        .map_err(|error| Problem::invalid(error.to_string()).field("url"))?;
    Ok(RecordId::of_url(url.as_str()))
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
                Err(Problem::invalid("a URL has one record; leave this out, or leave `url` out").field(name))
            }
        }
    }

    fn wanted(&self) -> Result<Wanted, Problem> {
        let time = |name: &'static str, text: &Option<String>| {
            let read = |text: &String| {
                Timestamp::from_iso(text).ok_or_else(|| {
                    Problem::invalid("expected ISO 8601 such as `2026-11-15T09:30:00Z`").field(name)
                })
            };
            text.as_ref().map(read).transpose()
        };
        let status = self.status.as_ref().map(|word| {
            Status::from_word(word).ok_or_else(|| {
                let words = Status::ALL.map(Status::as_str).join(", ");
                Problem::invalid(format!("expected one of {words}")).field("status")
            })
        });
        let cursor = self.cursor.as_ref().map(|cursor| {
            cursor.parse().map_err(|error| Problem::invalid(format!("{error}")).field("cursor"))
        });
        let most = if self.source { MOST_WITH_SOURCE } else { MOST_LISTED };
        let limit = self.limit.unwrap_or(FEW.min(most));
        if limit == 0 || limit > most {
            return Err(Problem::invalid(format!("expected 1 to {most}")).field("limit"));
        }
        Ok(Wanted {
            from: time("from", &self.from)?,
            to: time("to", &self.to)?,
            status: status.transpose()?,
            after: cursor.transpose()?,
            limit,
            with_source: self.source,
        })
    }
}
