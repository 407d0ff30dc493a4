//! `/api/queues`: what is in the queues, and pausing and resuming them.

use crate::{
    extract::PathOf,
    parts::Shared,
    problem::Problem,
    shape::{Queue, QueueList},
};
use axum::{Json, extract::State};
use crawlway_broker::{Broker, QueueName, QueueSpec};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

/// Whether a queue is paused.
#[derive(Debug, Serialize, ToSchema)]
struct Paused {
    /// The queue.
    queue: String,
    /// Whether its deliveries are paused now.
    paused: bool,
}

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// The spec of a queue that somebody expects to be there.
pub(super) async fn existing(broker: &dyn Broker, name: &str) -> Result<QueueSpec, Problem> {
    let name = QueueName::new(name)?;
    let mut specs = broker.queues().await?;
    if let Some(at) = specs.iter().position(|spec| spec.name == name) {
        return Ok(specs.swap_remove(at));
    }
    let known: Vec<QueueName> = specs.into_iter().map(|spec| spec.name).collect();
    let known: Vec<String> = name.nearest(&known).iter().map(|name| format!("`{name}`")).collect();
    let problem = format!("there is no queue `{name}`; there are {}", known.join(", "));
    Err(Problem::not_found(problem).field("queue"))
}

/// What is in all queues; the frontier is shown as one of them
#[utoipa::path(get, path = "/api/queues", operation_id = "listQueues", tag = "queues", responses((status = OK, body = QueueList)))]
async fn list(State(shared): State<Shared>) -> Result<Json<QueueList>, Problem> {
    let broker = &*shared.parts.broker;
    let mut queues = Vec::new();
    for spec in broker.queues().await? {
        let depth = broker.depth(&spec.name).await?;
        queues.push(Queue::new(spec, depth));
    }
    Ok(Json(QueueList { queues }))
}

/// What is in a queue, and its spec
#[utoipa::path(get, path = "/api/queues/{queue}", operation_id = "getQueue", tag = "queues",
    params(("queue" = String, Path, description = "The queue's name")), responses(
    (status = OK, body = Queue),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such queue"),
))]
async fn one(State(shared): State<Shared>, PathOf(queue): PathOf<String>) -> Result<Json<Queue>, Problem> {
    let broker = &*shared.parts.broker;
    let spec = existing(broker, &queue).await?;
    let depth = broker.depth(&spec.name).await?;
    Ok(Json(Queue::new(spec, depth)))
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
    let broker = &*shared.parts.broker;
    let name = existing(broker, &queue).await?.name;
    broker.pause(&name).await?;
    Ok(Json(Paused { queue, paused: true }))
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
    let broker = &*shared.parts.broker;
    let name = existing(broker, &queue).await?.name;
    broker.resume(&name).await?;
    Ok(Json(Paused { queue, paused: false }))
}
