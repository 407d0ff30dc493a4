//! The routes below `/api/checksums`.

use super::{ChecksumSettings, REQUESTS, queue, stages::Request};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use crawlway_app::Handles;
use crawlway_broker::{MessageId, Outgoing};
use crawlway_gateway::{GatewayState, Problem, service};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

/// What the routes work with.
#[derive(Clone)]
struct Routes {
    settings: ChecksumSettings,
    directory: Arc<PathBuf>,
}

pub(super) fn routes(handles: &Handles) -> OpenApiRouter<GatewayState> {
    let config = handles.config();
    let settings = config.of_flow("checksum").unwrap_or(ChecksumSettings { max_length: 0 });
    let routes = Routes { settings, directory: super::directory(config) };
    OpenApiRouter::new().routes(routes!(add)).routes(routes!(one)).layer(Extension(routes))
}

/// Text whose checksum is wanted.
#[derive(Debug, Deserialize, ToSchema)]
struct NewText {
    /// Text.
    text: String,
}

/// Accepted text.
#[derive(Debug, Serialize, ToSchema)]
struct AcceptedText {
    /// Id of the item.
    id: String,
}

/// Checksum of a text.
#[derive(Debug, Serialize, ToSchema)]
struct StoredChecksum {
    /// Hexadecimal text.
    checksum: String,
}

/// Request the checksum of a text
#[utoipa::path(post, path = "/api/checksums", operation_id = "addChecksum", tag = "checksums", request_body = NewText,
    responses((status = OK, body = AcceptedText)))]
async fn add(
    State(state): State<GatewayState>,
    Extension(routes): Extension<Routes>,
    Json(new): Json<NewText>,
) -> Result<Json<AcceptedText>, Problem> {
    let max = routes.settings.max_length;
    if new.text.len() > max {
        let detail = format!("the text has more than {max} bytes; see `checksum.max_length`");
        return Err(service::Error::invalid(detail).into());
    }
    let id = MessageId::random();
    let body = serde_json::to_vec(&Request { text: new.text })
        .map_err(|error| service::Error::invalid(error.to_string()))?;
    let message = Outgoing::to_queue(&queue(REQUESTS), body).id(id.clone());
    for published in state.context().broker.publish(vec![message]).await {
        published.map_err(|error| service::Error::unavailable(error.to_string()))?;
    }
    Ok(Json(AcceptedText { id: id.to_string() }))
}

/// Get a checksum
#[utoipa::path(get, path = "/api/checksums/{id}", operation_id = "getChecksum", tag = "checksums",
    params(("id" = String, Path, description = "Id of the item")),
    responses((status = OK, body = StoredChecksum), (status = NOT_FOUND, description = "Not computed yet")))]
async fn one(
    Extension(routes): Extension<Routes>,
    Path(id): Path<String>,
) -> Result<Json<StoredChecksum>, Problem> {
    let name = id.replace('/', "");
    let read = std::fs::read_to_string(routes.directory.join(&name));
    let checksum = read.map_err(|_| service::Error::not_found(format!("no checksum `{name}`")))?;
    Ok(Json(StoredChecksum { checksum }))
}
