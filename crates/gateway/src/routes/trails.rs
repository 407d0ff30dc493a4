//! `/api/trails`: what happened to an item, by its id or its URL.

use crate::{
    extract::QueryOf,
    parts::Shared,
    problem::Problem,
    shape::{FrontierEntry, ItemTrail, Trails},
};
use axum::{Json, extract::State};
use crawlway_content::{UrlOptions, url::normalise};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

/// How many items of one URL are shown.
const MOST_ITEMS: usize = 20;

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
    let (of, found, known) = match (query.item, query.url) {
        (Some(item), None) => {
            let trail = trails.of_item(&item).await?;
            let known = match trail.iter().find_map(|entry| entry.subject.clone()) {
                Some(url) => frontier.find(&url).await?,
                None => Vec::new(),
            };
            let known = known.into_iter().filter(|entry| entry.item == item).collect();
            (item, vec![trail], known)
        }
        (None, Some(url)) => {
            let normal = normalise(&url, &UrlOptions::default())
                .map_err(|error| Problem::invalid(error.to_string()).field("url"))?;
            let found = trails.of_subject(normal.as_str(), MOST_ITEMS).await?;
            let known = frontier.find(normal.as_str()).await?;
            (normal.into_string(), found, known)
        }
        _ => return Err(Problem::invalid("give either `item` or `url`").field("item")),
    };
    let items: Vec<ItemTrail> = found.into_iter().filter_map(ItemTrail::new).collect();
    if items.is_empty() && known.is_empty() {
        return Err(Problem::not_found(format!("nothing is known of `{of}`")));
    }
    Ok(Json(Trails { items, frontier: known.into_iter().map(FrontierEntry::from).collect() }))
}
