//! `/api/dead`: listing, reading, replaying and dropping dead letters.

use super::queues::existing;
use crate::{
    extract::{JsonBody, PathOf, QueryOf},
    parts::Shared,
    problem::Problem,
    shape::{DeadList, Letter, NextDead},
};
use axum::{Json, extract::State};
use crawlway_broker::{DeadFilter, DeadId, QueueName, Timestamp};
use crawlway_clock::parse_duration;
use crawlway_flows::search::FLOW;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Bodies come with the letters, so only this many are in memory at a time.
const PAGE: usize = 100;
/// The most letters of one queue in one list.
const MOST_LETTERS: usize = 1_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those of this queue.
    queue: Option<String>,
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
            message_id: self.message_id,
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

/// What a replay did.
#[derive(Debug, Serialize, ToSchema)]
struct Replayed {
    /// The queue.
    queue: String,
    /// How many letters are back in it.
    replayed: u64,
    /// Why it stopped early, if it did; what was not replayed is still a dead letter.
    stopped: Option<String>,
}

/// What was thrown away.
#[derive(Debug, Serialize, ToSchema)]
struct Dropped {
    /// The queue.
    queue: String,
    /// How many letters were thrown away.
    dropped: u64,
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
    let broker = &*shared.parts.broker;
    let now = shared.parts.clock.now();
    if query.limit == 0 || query.limit > MOST_LETTERS {
        return Err(Problem::invalid(format!("expected 1 to {MOST_LETTERS}")).field("limit"));
    }
    if query.after.is_some() && query.queue.is_none() {
        return Err(Problem::invalid("`after` goes on in one queue; give `queue` too").field("queue"));
    }
    let filter = DeadFilter {
        id: None,
        message_id: query.message_id,
        reason: query.reason,
        error: query.error,
        since: time("since", query.since, now)?,
        until: time("until", query.until, now)?,
    };
    let queues: Vec<QueueName> = match query.queue {
        Some(queue) => vec![existing(broker, &queue).await?.name],
        None => broker.queues().await?.into_iter().map(|spec| spec.name).collect(),
    };
    let mut listed = DeadList { dead: Vec::new(), next: Vec::new() };
    for queue in queues {
        let (mut after, mut left) = (query.after.clone().map(DeadId), query.limit);
        let next = loop {
            let page = broker.dead_letters(&queue, &filter, after.as_ref(), left.min(PAGE)).await?;
            left = left.saturating_sub(page.letters.len());
            listed.dead.extend(page.letters.iter().map(Letter::outline));
            if left == 0 || page.next.is_none() {
                break page.next;
            }
            after = page.next;
        };
        listed.next.extend(next.map(|DeadId(after)| NextDead { queue: queue.to_string(), after }));
    }
    Ok(Json(listed))
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
    let broker = &*shared.parts.broker;
    let name = existing(broker, &queue).await?.name;
    let page = broker.dead_letters(&name, &DeadFilter::one(DeadId(id.clone())), None, 1).await?;
    let letter = page.letters.first().ok_or_else(|| missing(&name, &id))?;
    Ok(Json(Letter::whole(letter)))
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
    let name = existing(&*shared.parts.broker, &queue).await?.name;
    let replayed = replay(shared, name.clone(), DeadFilter::one(DeadId(id.clone()))).await?;
    if replayed.replayed == 0 && replayed.stopped.is_none() {
        return Err(missing(&name, &id));
    }
    Ok(Json(replayed))
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
    let name = existing(&*shared.parts.broker, &queue).await?.name;
    Ok(Json(replay(shared, name, filter).await?))
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
    let broker = &*shared.parts.broker;
    let name = existing(broker, &queue).await?.name;
    match broker.drop_dead(&name, &DeadFilter::one(DeadId(id.clone()))).await? {
        0 => Err(missing(&name, &id)),
        dropped => Ok(Json(Dropped { queue, dropped })),
    }
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
    let name = existing(&*shared.parts.broker, &queue).await?.name;
    // Seen through even if the caller goes away.
    let dropping = tokio::spawn(async move { shared.parts.broker.drop_dead(&name, &filter).await });
    let dropped =
        dropping.await.map_err(|_| Problem::internal("dropping broke off; look at what is left"))??;
    Ok(Json(Dropped { queue, dropped }))
}

/// Replays, noting it in the trails. Seen through even if the caller goes away: a note says that an item was replayed
/// before it is.
async fn replay(shared: Shared, queue: QueueName, filter: DeadFilter) -> Result<Replayed, Problem> {
    let name = queue.to_string();
    let replaying = tokio::spawn(async move {
        let parts = &shared.parts;
        let replayed = crawlway_flow::replay(
            &*parts.broker,
            &*parts.trails,
            &parts.clock,
            FLOW,
            &parts.worker,
            &queue,
            &filter,
        )
        .await;
        (parts.wake)();
        replayed
    });
    let replayed =
        replaying.await.map_err(|_| Problem::internal("the replay broke off; look at what is left"))??;
    let stopped = replayed.stopped.map(|error| error.to_string());
    Ok(Replayed { queue: name, replayed: replayed.count, stopped })
}

fn missing(queue: &QueueName, id: &str) -> Problem {
    let problem = format!(
        "queue `{queue}` has no dead letter `{id}`; `GET /api/dead?queue={queue}` lists those it has"
    );
    Problem::not_found(problem).field("id")
}
