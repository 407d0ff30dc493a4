//! `/api/blobs`: raw contents, for admins and for holders of a signed link.

use crate::{dto::BlobList, extract::QueryParams, problem::Problem, state::GatewayState};
use axum::{
    Extension, Json,
    body::Body,
    extract::Path,
    response::{IntoResponse, Response},
};
use crawlway_store::{
    BlobStore, StoreError,
    blobs::{BlobInfo, BlobKey, BlobQuery, LinkError},
};
use http::{HeaderName, HeaderValue, header};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Start of the paths of blobs.
const BLOBS: &str = "/api/blobs/";

/// Content security policy of a blob. It is a page of others: no script of it runs, and it has an origin of its own.
const CONTENT_POLICY: &str = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/// Whether a request is made with a signed link, whose signature the route checks in place of a token.
pub(crate) fn is_signed(path: &str, query: Option<&str>) -> bool {
    let mut parameters = query.unwrap_or_default().split('&');
    path.starts_with(BLOBS) && parameters.any(|parameter| parameter.starts_with("signature="))
}

/// Routes of the blobs.
pub fn blob_routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Prefix of the keys, such as `raw/acme/`
    #[serde(default)]
    prefix: String,
    /// Only keys after this one: `next` of the previous page
    after: Option<String>,
    /// Page size, up to 1000
    #[serde(default = "super::default_limit")]
    #[param(minimum = 1, maximum = 1000)]
    limit: usize,
}

/// List blobs in the order of their keys
#[utoipa::path(get, path = "/api/blobs", operation_id = "listBlobs", tag = "blobs", params(ListQuery), responses(
    (status = OK, body = BlobList),
))]
async fn list(
    Extension(store): Extension<Arc<dyn BlobStore>>,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<BlobList>, Problem> {
    let after = query.after.as_deref().map(|key| parsed(key, "after")).transpose()?;
    if query.limit == 0 {
        return Err(Problem::invalid("expected 1 to 1000").field("limit"));
    }
    let page = store.list(&BlobQuery { prefix: query.prefix, after, limit: query.limit }).await;
    Ok(Json(BlobList::from(page.map_err(failed)?)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct LinkQuery {
    /// When the link expires, in seconds since the Unix epoch
    expires: Option<u64>,
    /// Signature of the link; without it a token is needed
    signature: Option<String>,
}

/// Get a blob
///
/// With a token, or with a signed link of `crawlway blob url`, which needs none.
#[utoipa::path(get, path = "/api/blobs/{*key}", operation_id = "getBlob", tag = "blobs",
    params(("key" = String, Path, description = "Key, such as `raw/acme/42.html`"), LinkQuery), responses(
    (status = OK, description = "Content of the blob", content_type = "application/octet-stream", body = Vec<u8>),
    (status = FORBIDDEN, description = "Wrong signature"),
    (status = NOT_FOUND, description = "Unknown key"),
    (status = GONE, description = "Expired link"),
))]
async fn get(
    Extension(store): Extension<Arc<dyn BlobStore>>,
    Path(key): Path<String>,
    QueryParams(link): QueryParams<LinkQuery>,
) -> Result<Response, Problem> {
    let key = parsed(&key, "key")?;
    if let Some(signature) = &link.signature {
        let expires =
            link.expires.ok_or_else(|| Problem::invalid("a link has `expires`").field("expires"))?;
        store.check_link(&key, expires, signature).await.map_err(|error| match error {
            LinkError::Forged => Problem::forged_link(error.to_string()),
            LinkError::Expired(_) => Problem::expired_link(error.to_string()),
            LinkError::Unavailable(reason) => Problem::unavailable(reason),
        })?;
    }
    let found = store.get(&key).await.map_err(failed)?;
    let (info, content) = found.ok_or_else(|| {
        Problem::not_found(format!("there is no blob `{key}`, or it has expired; `/api/blobs` lists them"))
    })?;
    let mut response = Body::from_stream(content).into_response();
    *response.headers_mut() = headers(&info);
    Ok(response)
}

fn headers(info: &BlobInfo) -> http::HeaderMap {
    let metadata = &info.metadata;
    let kind = metadata.content_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
    let mut all = vec![
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_LENGTH, info.size.to_string()),
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    all.extend(metadata.content_encoding.clone().map(|encoding| (header::CONTENT_ENCODING, encoding)));
    all.extend(info.sha256.as_ref().map(|hash| (header::ETAG, format!("\"{hash}\""))));
    let of_fetch = |name| HeaderName::from_static(name);
    all.extend(metadata.url.clone().map(|url| (of_fetch("x-crawlway-url"), url)));
    all.extend(metadata.fetched_at.map(|at| (of_fetch("x-crawlway-fetched-at"), at.to_iso())));
    all.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value).ok()?))).collect()
}

fn parsed(key: &str, field: &str) -> Result<BlobKey, Problem> {
    key.parse().map_err(|error: crawlway_store::blobs::InvalidBlobKey| {
        Problem::invalid(error.to_string()).field(field)
    })
}

fn failed(error: StoreError) -> Problem {
    match error {
        StoreError::Invalid { problem } => Problem::invalid(problem),
        error => Problem::unavailable(error.to_string()),
    }
}
