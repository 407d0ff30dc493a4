//! `/api/trails`: event history of an item, by id or URL.

use crate::{
    dto::Trails,
    extract::QueryParams,
    problem::Problem,
    service::{self, excerpt},
    state::GatewayState,
};
use axum::{Json, extract::State};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::{router::OpenApiRouter, routes};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TrailQuery {
    /// Item id, or message id of a dead letter; either this or `url`.
    item: Option<String>,
    /// URL, for the trails of its latest 20 items; either this or `item`.
    url: Option<String>,
}

pub(super) fn routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new().routes(routes!(trail))
}

/// Get the trail of an item, or of the items of a URL
#[utoipa::path(get, path = "/api/trails", operation_id = "getTrails", tag = "trails", params(TrailQuery), responses(
    (status = OK, body = Trails),
    (status = NOT_FOUND, description = "Unknown item or URL"),
))]
async fn trail(
    State(state): State<GatewayState>,
    QueryParams(query): QueryParams<TrailQuery>,
) -> Result<Json<Trails>, Problem> {
    // A process may have trails without a frontier.
    let frontier = match state.context().frontier.absent_reason() {
        Some(_) => None,
        None => Some(state.frontier()?),
    };
    let (trails, frontier) = (&*state.trails()?, frontier.as_deref());
    let (subject, found) = match (query.item, query.url) {
        (Some(item), None) => {
            let mut found = service::trails_of_item(trails, frontier, &item).await?;
            // A dead letter may be known by the id that its broker gave to the message.
            if found.items.is_empty()
                && let Ok(queues) = state.queues()
                && let Some(id) =
                    service::item_of_dead_letter(&*queues, &state.context().stage_queues, &item).await?
            {
                found = service::trails_of_item(trails, frontier, &id).await?;
            }
            (item, found)
        }
        (None, Some(url)) => (url.clone(), service::trails_of_url(trails, frontier, &url).await?),
        _ => return Err(Problem::invalid("give either `item` or `url`").field("item")),
    };
    if found.items.is_empty() && found.frontier.is_empty() {
        return Err(Problem::not_found(format!("no trail of `{}`", excerpt(&subject))));
    }
    Ok(Json(found))
}
