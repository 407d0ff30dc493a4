//! `/api/requests/events`: a user's changes as server-sent events.

use super::user_requests::UserQuery;
use crate::{
    auth::TokenCheck, caller::Caller, dto::RequestEvent, extract::QueryParams, problem::Problem,
    requests::RequestService, requests::Subscription, state::GatewayState,
};
use axum::{
    Extension,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use crawlway_flow::Shutdown;
use crawlway_store::{
    RequestStore,
    requests::{Change, ChangeId, RequestStatus},
};
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

/// Header with the id of the last event that the client has seen.
const LAST_EVENT_ID: &str = "last-event-id";
/// Id of the position before the first change, since an empty id is not sent back.
const START: &str = "start";
/// Interval of looking whether the token is still valid.
const TOKEN_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of changes of one read.
const BATCH: usize = 100;
/// Delay before a read is repeated that failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Stream of a user's changes.
struct Feed {
    store: Arc<dyn RequestStore>,
    email: String,
    position: ChangeId,
    subscription: Subscription,
    pending: VecDeque<Change>,
    stop: Shutdown,
    token: Option<TokenCheck>,
    /// Whether the position was sent, so that a client without an event can resume, too.
    is_open: bool,
}

impl Feed {
    /// The next event; `None` at the shutdown, and once the token is not valid any more.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if !self.is_open {
            self.is_open = true;
            let position = if self.position.0.is_empty() { START } else { &*self.position.0 };
            let first = Event::default().id(position).comment("open");
            return Some((Ok(first), self));
        }
        loop {
            if let Some(token) = &self.token
                && !token.is_valid().await
            {
                return None;
            }
            if let Some(change) = self.pending.pop_front() {
                self.position = change.id.clone();
                return Some((Ok(event(&change)), self));
            }
            let feed = [(self.email.clone(), self.position.clone())];
            match self.store.changes(&feed, BATCH).await {
                Ok(changes) => self.pending.extend(changes.into_iter().flatten()),
                Err(error) => {
                    tracing::debug!(%error, "the changes of a user cannot be read");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
            if self.pending.is_empty() {
                tokio::select! {
                    () = self.subscription.changed() => {}
                    () = tokio::time::sleep(TOKEN_INTERVAL), if self.token.is_some() => {}
                    _ = self.stop.requested() => return None,
                }
            }
        }
    }
}

fn event(change: &Change) -> Event {
    let status = change.status.map_or("deleted", RequestStatus::as_str);
    let data = RequestEvent { id: change.request.clone(), status: status.to_owned() };
    // Cannot fail: all fields are serialisable.
    let data = serde_json::to_string(&data).unwrap_or_default();
    Event::default().event("request").id(&*change.id.0).data(data)
}

/// Stream a user's changes as server-sent events (`text/event-stream`)
///
/// Each event has the type `request`, an id, and as data the id and the status of the request; the result is read with
/// `GET /api/requests/{id}`. With `Last-Event-ID` the stream goes on after that event, on any gateway; otherwise it begins now. The
/// last 1000 changes are kept. A change is sent at least once.
#[utoipa::path(get, path = "/api/requests/events", operation_id = "streamRequests", tag = "requests",
    params(UserQuery, ("last-event-id" = Option<String>, Header, description = "Id of the last event that was seen")), responses(
    (status = OK, body = RequestEvent, content_type = "text/event-stream", description = "Endless stream"),
))]
pub(super) async fn events(
    State(state): State<GatewayState>,
    Extension(service): Extension<RequestService>,
    caller: Caller,
    token: Option<Extension<TokenCheck>>,
    headers: HeaderMap,
    QueryParams(query): QueryParams<UserQuery>,
) -> Result<Response, Problem> {
    let (store, email) = service.stored_user(&state, &caller, query.email.as_deref()).await?;
    let email = email.as_str().to_owned();
    let subscription = service.subscribe(&*store, &email).await?;
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    let last = last.map(|id| ChangeId(if id == START { String::new() } else { id.to_owned() }));
    let position = last.unwrap_or_else(|| subscription.position.clone());
    let (pending, stop) = (VecDeque::new(), service.stop().clone());
    let token = token.map(|Extension(token)| token);
    let feed = Feed { store, email, position, subscription, pending, stop, token, is_open: false };
    let mut response =
        Sse::new(stream::unfold(feed, Feed::next)).keep_alive(KeepAlive::default()).into_response();
    // Proxies must not buffer the stream.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
