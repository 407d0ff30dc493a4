//! `DELETE /api/pages`: removal of pages from the index.

use crate::{
    dto::RemovedPages,
    extract::QueryParams,
    problem::Problem,
    routes::uncancelled,
    service::{Error, removal},
    state::GatewayState,
};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RemovalQuery {
    /// URL of a page.
    url: Option<String>,
    /// Host, for all its pages and those of its subdomains.
    host: Option<String>,
}

/// Remove a page, or all pages of a host, from the index
///
/// The removal is complete with the response. The URLs stay in their crawls, and a page that is crawled again is indexed again.
#[utoipa::path(delete, path = "/api/pages", operation_id = "removePages", tag = "search", params(RemovalQuery), responses(
    (status = OK, body = RemovedPages, description = "Number of removed pages, possibly 0"),
    (status = BAD_REQUEST, description = "Neither or both of `url` and `host`, or an invalid value"),
))]
pub(super) async fn remove(
    State(state): State<GatewayState>,
    QueryParams(query): QueryParams<RemovalQuery>,
) -> Result<Json<RemovedPages>, Problem> {
    let index = state.index()?;
    let removal = async move {
        match query {
            RemovalQuery { url: Some(url), host: None } => removal::remove_urls(&*index, &[url]).await,
            RemovalQuery { url: None, host: Some(host) } => removal::remove_host(&*index, &host).await,
            _ => Err(Error::invalid("expected either `url` or `host`").field("url")),
        }
    };
    Ok(Json(uncancelled(removal, "the removal was interrupted; repeat the request").await?))
}
