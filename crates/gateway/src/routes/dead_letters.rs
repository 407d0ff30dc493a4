//! `/api/dead`: dead letters; list, replay and removal.

use super::{default_limit, uncancelled};
use crate::{
    context::GatewayContext,
    dto::{DeadLetterCauseView, DeadLetterView, DeadList, Dropped, Replayed},
    extract::{JsonBody, PathParams, QueryParams},
    problem::Problem,
    service::{self, ReplayTrails, check_limit},
    state::GatewayState,
};
use axum::{Json, extract::State};
use crawlway_broker::{DeadLetterFilter, DeadLetterId, Timestamp};
use crawlway_clock::parse_duration;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Maximum number of dead letters of one queue in one list.
const MAX_LETTERS: usize = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Queue.
    queue: Option<String>,
    /// Cause of the failure.
    #[param(inline)]
    cause: Option<DeadLetterCauseView>,
    /// Text in the reason, case-insensitive.
    reason: Option<String>,
    /// Text in the first or last error, case-insensitive.
    error: Option<String>,
    /// Message id.
    message_id: Option<String>,
    /// Earliest time at which it became a dead letter, such as `2026-11-15T09:30:00Z`, or an age such as `2h`.
    since: Option<String>,
    /// Exclusive latest time at which it became a dead letter, or an age.
    until: Option<String>,
    /// Maximum number per queue, 1 to 1000.
    #[serde(default = "default_limit")]
    #[param(default = 50, minimum = 1, maximum = 1000)]
    limit: usize,
    /// Pagination cursor: `next` of the previous list; needs `queue`.
    after: Option<String>,
}

/// Selection of dead letters: all, or those that match every condition.
#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = Which)]
struct Selection {
    /// Whether all dead letters of the queue are selected; required without a condition.
    #[serde(default)]
    all: bool,
    /// Cause of the failure.
    #[param(inline)]
    cause: Option<DeadLetterCauseView>,
    /// Text in the reason, case-insensitive.
    reason: Option<String>,
    /// Text in the first or last error, case-insensitive.
    error: Option<String>,
    /// Message id.
    message_id: Option<String>,
    /// Earliest time at which it became a dead letter, such as `2026-11-15T09:30:00Z`, or an age such as `2h`.
    since: Option<String>,
    /// Exclusive latest time at which it became a dead letter, or an age.
    until: Option<String>,
}

impl Selection {
    fn into_filter(self, now: Timestamp) -> Result<DeadLetterFilter, Problem> {
        Ok(DeadLetterFilter {
            id: None,
            ids: Default::default(),
            message_id: self.message_id,
            cause: self.cause.map(Into::into),
            reason: self.reason,
            error: self.error,
            since: time("since", self.since, now)?,
            until: time("until", self.until, now)?,
        })
    }

    /// Filter for a change, for which `all` must be explicit.
    fn into_explicit_filter(self, now: Timestamp) -> Result<DeadLetterFilter, Problem> {
        let all = self.all;
        let filter = self.into_filter(now)?;
        match (all, filter == DeadLetterFilter::all()) {
            (true, true) | (false, false) => Ok(filter),
            (false, true) => Err(Problem::invalid("set `all` to true, or add a condition").field("all")),
            (true, false) => Err(Problem::invalid("`all` excludes other conditions").field("all")),
        }
    }
}

/// Point in time, or an age.
fn time(field: &str, text: Option<String>, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let time = parse_duration(&text).map(|age| now - age).or_else(|| Timestamp::from_iso(&text));
    time.map(Some).ok_or_else(|| {
        let expected = "expected a time such as 2026-11-15T09:30:00Z, or an age such as 30min or 2d";
        Problem::invalid(format!("`{text}` is no time; {expected}")).field(field)
    })
}

pub(super) fn routes() -> OpenApiRouter<GatewayState> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(drop_some))
        .routes(routes!(replay_some))
        .routes(routes!(one, drop_one))
        .routes(routes!(replay_one))
}

/// List dead letters, the oldest of each queue first
#[utoipa::path(get, path = "/api/dead", operation_id = "listDeadLetters", tag = "dead letters", params(ListQuery), responses(
    (status = OK, body = DeadList),
))]
async fn list(
    State(state): State<GatewayState>,
    QueryParams(query): QueryParams<ListQuery>,
) -> Result<Json<DeadList>, Problem> {
    let ListQuery { queue, cause, reason, error, message_id, since, until, limit, after } = query;
    check_limit(limit, MAX_LETTERS)?;
    if after.is_some() && queue.is_none() {
        return Err(Problem::invalid("`after` is a cursor of one queue; give `queue` too").field("queue"));
    }
    let conditions = Selection { all: false, cause, reason, error, message_id, since, until };
    let filter = conditions.into_filter(state.context().clock.now())?;
    let (queue, after) = (queue.as_deref(), after.as_deref());
    Ok(Json(
        service::dead_letters(&*state.queues()?, state.undeclared(), queue, &filter, after, limit).await?,
    ))
}

/// Get a dead letter with its headers and body
#[utoipa::path(get, path = "/api/dead/{queue}/{id}", operation_id = "getDeadLetter", tag = "dead letters", params(
    ("queue" = String, Path, description = "Name of the queue"),
    ("id" = String, Path, description = "Id of the dead letter"),
), responses(
    (status = OK, body = DeadLetterView),
    (status = NOT_FOUND, description = "Unknown dead letter"),
))]
async fn one(
    State(state): State<GatewayState>,
    PathParams((queue, id)): PathParams<(String, String)>,
) -> Result<Json<DeadLetterView>, Problem> {
    Ok(Json(service::dead_letter(&*state.queues()?, state.undeclared(), &queue, &id).await?))
}

/// Replay a dead letter: publish it to its queue again, with its attempts reset
#[utoipa::path(post, path = "/api/dead/{queue}/{id}/replay", operation_id = "replayDeadLetter", tag = "dead letters", params(
    ("queue" = String, Path, description = "Name of the queue"),
    ("id" = String, Path, description = "Id of the dead letter"),
), responses(
    (status = OK, body = Replayed),
    (status = NOT_FOUND, description = "Unknown dead letter"),
))]
async fn replay_one(
    State(state): State<GatewayState>,
    PathParams((queue, id)): PathParams<(String, String)>,
) -> Result<Json<Replayed>, Problem> {
    Ok(Json(replay(state, queue, DeadLetterFilter::with_id(DeadLetterId(id))).await?))
}

/// Replay all dead letters of a queue, or those that match conditions
#[utoipa::path(post, path = "/api/dead/{queue}/replay", operation_id = "replayDeadLetters", tag = "dead letters", request_body = Selection,
    params(("queue" = String, Path, description = "Name of the queue")), responses(
    (status = OK, body = Replayed, description = "Number of replayed dead letters, possibly 0"),
))]
async fn replay_some(
    State(state): State<GatewayState>,
    PathParams(queue): PathParams<String>,
    JsonBody(selection): JsonBody<Selection>,
) -> Result<Json<Replayed>, Problem> {
    let filter = selection.into_explicit_filter(state.context().clock.now())?;
    Ok(Json(replay(state, queue, filter).await?))
}

/// Remove a dead letter for good
#[utoipa::path(delete, path = "/api/dead/{queue}/{id}", operation_id = "dropDeadLetter", tag = "dead letters", params(
    ("queue" = String, Path, description = "Name of the queue"),
    ("id" = String, Path, description = "Id of the dead letter"),
), responses(
    (status = OK, body = Dropped),
    (status = NOT_FOUND, description = "Unknown dead letter"),
))]
async fn drop_one(
    State(state): State<GatewayState>,
    PathParams((queue, id)): PathParams<(String, String)>,
) -> Result<Json<Dropped>, Problem> {
    Ok(Json(drop_dead(state, queue, DeadLetterFilter::with_id(DeadLetterId(id))).await?))
}

/// Remove all dead letters of a queue for good, or those that match conditions
#[utoipa::path(delete, path = "/api/dead/{queue}", operation_id = "dropDeadLetters", tag = "dead letters", params(
    ("queue" = String, Path, description = "Name of the queue"), Selection,
), responses((status = OK, body = Dropped, description = "Number of removed dead letters, possibly 0")))]
async fn drop_some(
    State(state): State<GatewayState>,
    PathParams(queue): PathParams<String>,
    QueryParams(selection): QueryParams<Selection>,
) -> Result<Json<Dropped>, Problem> {
    let filter = selection.into_explicit_filter(state.context().clock.now())?;
    Ok(Json(drop_dead(state, queue, filter).await?))
}

async fn drop_dead(state: GatewayState, queue: String, filter: DeadLetterFilter) -> Result<Dropped, Problem> {
    let queues = state.queues()?;
    let removal =
        async move { service::remove_dead_letters(&*queues, state.undeclared(), &queue, &filter).await };
    uncancelled(removal, "the removal was interrupted; check the remaining dead letters").await
}

async fn replay(state: GatewayState, queue: String, filter: DeadLetterFilter) -> Result<Replayed, Problem> {
    let queues = state.queues()?;
    // A process without trails replays too.
    let trails = match state.context().trails.absent_reason() {
        Some(_) => None,
        None => Some(state.trails()?),
    };
    let replay = async move {
        let GatewayContext { stage_queues, clock, worker, wake, .. } = state.context();
        let trails = ReplayTrails { trails: trails.as_deref(), stage_queues, clock, by: worker };
        let replayed = service::replay(&*queues, state.undeclared(), trails, &queue, &filter).await;
        wake();
        replayed
    };
    uncancelled(replay, "the replay was interrupted; check the remaining dead letters").await
}
