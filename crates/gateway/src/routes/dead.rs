//! `/api/dead`: listing, reading, replaying and dropping dead letters.

use crate::{
    answers,
    extract::{JsonBody, PathOf, QueryOf},
    parts::Shared,
    problem::Problem,
    shape::{Cause, DeadList, Dropped, Letter, Replayed},
};
use axum::{Json, extract::State};
use crawlway_broker::{DeadFilter, DeadId, Timestamp};
use crawlway_clock::parse_duration;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

/// The most letters of one queue in one list.
const MOST_LETTERS: usize = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those of this queue.
    queue: Option<String>,
    /// Ended by this.
    #[param(inline)]
    cause: Option<Cause>,
    /// The reason contains this text, whatever the case.
    reason: Option<String>,
    /// The first or the last error contains this text, whatever the case.
    error: Option<String>,
    /// Those of the message with this id.
    message_id: Option<String>,
    /// Given up at this time or later: such as `2026-11-15T09:30:00Z`, or an age such as `2h`.
    since: Option<String>,
    /// Given up before this time.
    until: Option<String>,
    /// At most so many of each queue, 1 to 1000.
    #[serde(default = "fifty")]
    #[param(default = 50, minimum = 1, maximum = 1000)]
    limit: usize,
    /// Only those that come after this one, as `next` of the list before says; needs `queue`.
    after: Option<String>,
}

fn fifty() -> usize {
    50
}

/// Which dead letters are meant: all, or those for which every condition that is given holds.
#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// All of the queue; needed if there is no condition.
    #[serde(default)]
    all: bool,
    /// Ended by this.
    #[param(inline)]
    cause: Option<Cause>,
    /// The reason contains this text, whatever the case.
    reason: Option<String>,
    /// The first or the last error contains this text, whatever the case.
    error: Option<String>,
    /// Those of the message with this id.
    message_id: Option<String>,
    /// Given up at this time or later: such as `2026-11-15T09:30:00Z`, or an age such as `2h`.
    since: Option<String>,
    /// Given up before this time.
    until: Option<String>,
}

impl Which {
    fn into_filter(self, now: Timestamp) -> Result<DeadFilter, Problem> {
        let all = self.all;
        let filter = DeadFilter {
            id: None,
            ids: Default::default(),
            message_id: self.message_id,
            cause: self.cause.map(Into::into),
            reason: self.reason,
            error: self.error,
            since: time("since", self.since, now)?,
            until: time("until", self.until, now)?,
        };
        match (all, filter == DeadFilter::all()) {
            (true, true) | (false, false) => Ok(filter),
            (false, true) => Err(Problem::invalid(
                "say which dead letters are meant: set `all` to true, or give a condition",
            )
            .field("all")),
            (true, false) => {
                Err(Problem::invalid("either all are meant, or those that a condition holds for")
                    .field("all"))
            }
        }
    }
}

/// A point in time, or how long ago it was.
fn time(field: &str, text: Option<String>, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let time = parse_duration(&text).map(|age| now - age).or_else(|| Timestamp::from_iso(&text));
    time.map(Some).ok_or_else(|| {
        let expected = "expected a time such as 2026-11-15T09:30:00Z, or an age such as 30min or 2d";
        Problem::invalid(format!("`{text}` is no time; {expected}")).field(field)
    })
}

pub(super) fn routes() -> OpenApiRouter<Shared> {
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
    State(shared): State<Shared>,
    QueryOf(query): QueryOf<ListQuery>,
) -> Result<Json<DeadList>, Problem> {
    let now = shared.parts.clock.now();
    if query.limit == 0 || query.limit > MOST_LETTERS {
        return Err(Problem::invalid(format!("expected 1 to {MOST_LETTERS}")).field("limit"));
    }
    if query.after.is_some() && query.queue.is_none() {
        return Err(Problem::invalid("`after` goes on in one queue; give `queue` too").field("queue"));
    }
    let filter = DeadFilter {
        id: None,
        ids: Default::default(),
        message_id: query.message_id,
        cause: query.cause.map(Into::into),
        reason: query.reason,
        error: query.error,
        since: time("since", query.since, now)?,
        until: time("until", query.until, now)?,
    };
    let (queue, after) = (query.queue.as_deref(), query.after.as_deref());
    Ok(Json(answers::dead_list(&*shared.parts.broker, queue, &filter, after, query.limit).await?))
}

/// A dead letter whole, with its headers and its body
#[utoipa::path(get, path = "/api/dead/{queue}/{id}", operation_id = "getDeadLetter", tag = "dead letters", params(
    ("queue" = String, Path, description = "The queue's name"),
    ("id" = String, Path, description = "The dead letter, as the list names it"),
), responses(
    (status = OK, body = Letter),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such dead letter"),
))]
async fn one(
    State(shared): State<Shared>,
    PathOf((queue, id)): PathOf<(String, String)>,
) -> Result<Json<Letter>, Problem> {
    Ok(Json(answers::letter(&*shared.parts.broker, &queue, &id).await?))
}

/// Put a dead letter back into its queue, with its attempts reset
#[utoipa::path(post, path = "/api/dead/{queue}/{id}/replay", operation_id = "replayDeadLetter", tag = "dead letters", params(
    ("queue" = String, Path, description = "The queue's name"),
    ("id" = String, Path, description = "The dead letter, as the list names it"),
), responses(
    (status = OK, body = Replayed),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such dead letter"),
))]
async fn replay_one(
    State(shared): State<Shared>,
    PathOf((queue, id)): PathOf<(String, String)>,
) -> Result<Json<Replayed>, Problem> {
    Ok(Json(replay(shared, queue, DeadFilter::one(DeadId(id))).await?))
}

/// Put all dead letters of a queue back into it, or those that conditions hold for
#[utoipa::path(post, path = "/api/dead/{queue}/replay", operation_id = "replayDeadLetters", tag = "dead letters", request_body = Which,
    params(("queue" = String, Path, description = "The queue's name")), responses(
    (status = OK, body = Replayed, description = "How many; none is no failure"),
))]
async fn replay_some(
    State(shared): State<Shared>,
    PathOf(queue): PathOf<String>,
    JsonBody(which): JsonBody<Which>,
) -> Result<Json<Replayed>, Problem> {
    let filter = which.into_filter(shared.parts.clock.now())?;
    Ok(Json(replay(shared, queue, filter).await?))
}

/// Throw a dead letter away for good
#[utoipa::path(delete, path = "/api/dead/{queue}/{id}", operation_id = "dropDeadLetter", tag = "dead letters", params(
    ("queue" = String, Path, description = "The queue's name"),
    ("id" = String, Path, description = "The dead letter, as the list names it"),
), responses(
    (status = OK, body = Dropped),
    (status = NOT_FOUND, body = Problem, content_type = "application/problem+json", description = "There is no such dead letter"),
))]
async fn drop_one(
    State(shared): State<Shared>,
    PathOf((queue, id)): PathOf<(String, String)>,
) -> Result<Json<Dropped>, Problem> {
    Ok(Json(drop_dead(shared, queue, DeadFilter::one(DeadId(id))).await?))
}

/// Throw all dead letters of a queue away for good, or those that conditions hold for
#[utoipa::path(delete, path = "/api/dead/{queue}", operation_id = "dropDeadLetters", tag = "dead letters", params(
    ("queue" = String, Path, description = "The queue's name"), Which,
), responses((status = OK, body = Dropped, description = "How many; none is no failure")))]
async fn drop_some(
    State(shared): State<Shared>,
    PathOf(queue): PathOf<String>,
    QueryOf(which): QueryOf<Which>,
) -> Result<Json<Dropped>, Problem> {
    let filter = which.into_filter(shared.parts.clock.now())?;
    Ok(Json(drop_dead(shared, queue, filter).await?))
}

/// Drops, seen through even if the caller goes away.
async fn drop_dead(shared: Shared, queue: String, filter: DeadFilter) -> Result<Dropped, Problem> {
    let dropping =
        tokio::spawn(async move { answers::drop_dead(&*shared.parts.broker, &queue, &filter).await });
    dropping.await.map_err(|_| Problem::internal("dropping broke off; look at what is left"))?
}

/// Replays, noting it in the trails. Seen through even if the caller goes away: a note says that an item was replayed
/// before it is.
async fn replay(shared: Shared, queue: String, filter: DeadFilter) -> Result<Replayed, Problem> {
    let replaying = tokio::spawn(async move {
        let parts = &shared.parts;
        let trails = Some(&*parts.trails);
        let replayed =
            answers::replay(&*parts.broker, trails, &parts.clock, &parts.worker, &queue, &filter).await;
        (parts.wake)();
        replayed
    });
    replaying.await.map_err(|_| Problem::internal("the replay broke off; look at what is left"))?
}
