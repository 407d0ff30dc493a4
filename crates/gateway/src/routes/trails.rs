//! `/api/trails`: what happened to an item, by its id or its URL.

use crate::{answers, extract::QueryOf, parts::Shared, problem::Problem, shape::Trails};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TrailQuery {
    /// The item's id; either this or `url`.
    item: Option<String>,
    /// The URL that items were about, of which the latest 20 are shown; either this or `item`.
    url: Option<String>,
}

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(trail))
}

/// What happened to an item, by its id or its URL
#[utoipa::path(get, path = "/api/trails", operation_id = "getTrails", tag = "trails", params(TrailQuery), responses(
    (status = OK, body = Trails),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "Nothing is known of it"),
))]
async fn trail(
    State(shared): State<Shared>,
    QueryOf(query): QueryOf<TrailQuery>,
) -> Result<Json<Trails>, Problem> {
    let (trails, frontier) = (&*shared.parts.trails, &*shared.parts.frontier);
    let (of, found) = match (query.item, query.url) {
        (Some(item), None) => (item.clone(), answers::trails_of_item(trails, frontier, &item).await?),
        (None, Some(url)) => (url.clone(), answers::trails_of_url(trails, frontier, &url).await?),
        _ => return Err(Problem::invalid("give either `item` or `url`").field("item")),
    };
    if found.items.is_empty() && found.frontier.is_empty() {
        return Err(Problem::not_found(format!("nothing is known of `{of}`")));
    }
    Ok(Json(found))
}
