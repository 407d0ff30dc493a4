//! `/api/queues`: depth of queues; pause, resume and purge.

use super::uncancelled;
use crate::{
    dto::{Paused, Purged, Queue, QueueList},
    extract::PathParams,
    problem::Problem,
    service,
    state::GatewayState,
};
use axum::{Json, extract::State};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(super) fn routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(purge))
}

/// List queues with their depth; the frontier is one of them
#[utoipa::path(get, path = "/api/queues", operation_id = "listQueues", tag = "queues", responses((status = OK, body = QueueList)))]
async fn list(State(state): State<GatewayState>) -> Result<Json<QueueList>, Problem> {
    Ok(Json(service::queues(&*state.queues()?, state.undeclared()).await?))
}

/// Get the depth and spec of a queue
#[utoipa::path(get, path = "/api/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = String, Path, description = "Name of the queue")), responses(
    (status = OK, body = Queue),
    (status = NOT_FOUND, description = "Unknown queue"),
    (status = SERVICE_UNAVAILABLE, description = "Its broker does not respond"),
))]
async fn one(
    State(state): State<GatewayState>,
    PathParams(queue): PathParams<String>,
) -> Result<Json<Queue>, Problem> {
    Ok(Json(service::queue(&*state.queues()?, state.undeclared(), &queue).await?))
}

/// Pause deliveries of a queue, also across restarts; publishing continues
#[utoipa::path(post, path = "/api/queues/{queue}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("queue" = String, Path, description = "Name of the queue")), responses(
    (status = OK, body = Paused),
    (status = NOT_FOUND, description = "Unknown queue"),
    (status = SERVICE_UNAVAILABLE, description = "Its broker does not respond"),
    (status = CONFLICT, description = "The frontier cannot be paused; pause its crawls"),
))]
async fn pause(
    State(state): State<GatewayState>,
    PathParams(queue): PathParams<String>,
) -> Result<Json<Paused>, Problem> {
    Ok(Json(service::set_paused(&*state.queues()?, state.undeclared(), &queue, true).await?))
}

/// Resume deliveries of a queue
#[utoipa::path(post, path = "/api/queues/{queue}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("queue" = String, Path, description = "Name of the queue")), responses(
    (status = OK, body = Paused),
    (status = NOT_FOUND, description = "Unknown queue"),
    (status = SERVICE_UNAVAILABLE, description = "Its broker does not respond"),
    (status = CONFLICT, description = "The frontier cannot be resumed; resume its crawls"),
))]
async fn resume(
    State(state): State<GatewayState>,
    PathParams(queue): PathParams<String>,
) -> Result<Json<Paused>, Problem> {
    Ok(Json(service::set_paused(&*state.queues()?, state.undeclared(), &queue, false).await?))
}

/// Purge pending messages of a queue, ready or delayed; dead letters stay
#[utoipa::path(post, path = "/api/queues/{queue}/purge", operation_id = "purgeQueue", tag = "queues",
    params(("queue" = String, Path, description = "Name of the queue")), responses(
    (status = OK, body = Purged),
    (status = NOT_FOUND, description = "Unknown queue"),
    (status = SERVICE_UNAVAILABLE, description = "Its broker does not respond"),
    (status = CONFLICT, description = "The frontier cannot be purged; cancel its crawls"),
))]
async fn purge(
    State(state): State<GatewayState>,
    PathParams(queue): PathParams<String>,
) -> Result<Json<Purged>, Problem> {
    let queues = state.queues()?;
    let purge = async move { service::purge(&*queues, state.undeclared(), &queue).await };
    Ok(Json(uncancelled(purge, "the purge was interrupted; check the depth of the queue").await?))
}
