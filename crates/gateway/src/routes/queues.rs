//! `/api/queues`: what is in the queues, and pausing, resuming and purging them.

use crate::{
    answers,
    extract::PathOf,
    parts::Shared,
    problem::Problem,
    shape::{Paused, Purged, Queue, QueueList},
};
use axum::{Json, extract::State};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(purge))
}

/// What is in all queues; the frontier is shown as one of them
#[utoipa::path(get, path = "/api/queues", operation_id = "listQueues", tag = "queues", responses((status = OK, body = QueueList)))]
async fn list(State(shared): State<Shared>) -> Result<Json<QueueList>, Problem> {
    Ok(Json(answers::queues(&*shared.parts.broker).await?))
}

/// What is in a queue, and its spec
#[utoipa::path(get, path = "/api/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name")), responses(
    (status = OK, body = Queue),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such queue"),
))]
async fn one(State(shared): State<Shared>, PathOf(queue): PathOf<String>) -> Result<Json<Queue>, Problem> {
    Ok(Json(answers::queue(&*shared.parts.broker, &queue).await?))
}

/// Stop deliveries from a queue until it is resumed, also across restarts; publishing goes on
#[utoipa::path(post, path = "/api/queues/{queue}/pause", operation_id = "pauseQueue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name")), responses(
    (status = OK, body = Paused),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such queue"),
    (status = CONFLICT, body = Problem, content_type = "application/problem+json",
        description = "It is the frontier, of which crawls are paused one by one"),
))]
async fn pause(State(shared): State<Shared>, PathOf(queue): PathOf<String>) -> Result<Json<Paused>, Problem> {
    Ok(Json(answers::set_paused(&*shared.parts.broker, &queue, true).await?))
}

/// End a pause
#[utoipa::path(post, path = "/api/queues/{queue}/resume", operation_id = "resumeQueue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name")), responses(
    (status = OK, body = Paused),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such queue"),
    (status = CONFLICT, body = Problem, content_type = "application/problem+json",
        description = "It is the frontier, of which crawls are resumed one by one"),
))]
async fn resume(
    State(shared): State<Shared>,
    PathOf(queue): PathOf<String>,
) -> Result<Json<Paused>, Problem> {
    Ok(Json(answers::set_paused(&*shared.parts.broker, &queue, false).await?))
}

/// Throw away what waits in a queue, ready or delayed; dead letters stay
#[utoipa::path(post, path = "/api/queues/{queue}/purge", operation_id = "purgeQueue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name")), responses(
    (status = OK, body = Purged),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such queue"),
    (status = CONFLICT, body = Problem, content_type = "application/problem+json",
        description = "It is the frontier, of which crawls are cancelled one by one"),
))]
async fn purge(State(shared): State<Shared>, PathOf(queue): PathOf<String>) -> Result<Json<Purged>, Problem> {
    // Seen through even if the caller goes away.
    let purging = tokio::spawn(async move { answers::purge(&*shared.parts.broker, &queue).await });
    let purged =
        purging.await.map_err(|_| Problem::internal("purging broke off; look at what is left"))??;
    Ok(Json(purged))
}
