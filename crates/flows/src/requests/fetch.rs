//! The stage `fetch`: fetches the URL of a request, with retries in process, and publishes the answer. Nothing is put back into
//! the queue but what has to wait for its host.

use super::{
    message::{self, Head},
    scraped::scrape,
    wiring::RequestSettings,
};
use crawlway_broker::{Broker, Delivery, MessageId, Outgoing, QueueName};
use crawlway_clock::{Backoff, Timestamp};
use crawlway_content::NormalUrl;
use crawlway_fetch::{FetchCode, FetchError, FetchResponse, Fetcher, OnRateLimit, Request};
use crawlway_flow::{Context, Invalid, Item, Output, Stage, StageError, fail};
use crawlway_store::Ticket;
use futures::future::join_all;
use http::StatusCode;
use std::{sync::Arc, time::Duration};

/// Delay of a deferral without a time of its own.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delays between attempts, beside the back-off of the host.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));
/// Maximum wait of a further attempt for its host.
const MAX_WAIT: Duration = Duration::from_secs(30);

crawlway_flow::fail_points! {
    /// Fail points of this stage, beside those of the runner.
    FetchStep {
        /// The response is received.
        Fetched = "fetched",
    }
}

/// Name of the stage in trails, metrics and fail points.
pub(super) const NAME: &str = "fetch";

type Done = Output<(), ()>;

/// Message of a request.
#[derive(Debug)]
pub(super) enum Input {
    Valid(Valid),
    /// Invalid message whose request can be answered.
    Invalid {
        head: Head,
        reason: String,
    },
}

#[derive(Debug)]
pub(super) struct Valid {
    head: Head,
    /// URL as requested.
    url: String,
    normal_url: NormalUrl,
    /// Deadline of the answer; none for a replayed dead letter.
    deadline: Option<Timestamp>,
}

/// Time before the deadline of a request in which no further attempt is made.
const DEADLINE_MARGIN: Duration = Duration::from_secs(2);

/// Result of one attempt.
enum Attempt {
    Fetched(Box<FetchResponse>),
    /// Another attempt may succeed.
    Failed(String),
    /// No attempt can succeed.
    Refused(Failure),
    /// The host, its robots.txt or the memory is not available yet.
    Deferred(StageError),
}

/// Failure of a request.
struct Failure {
    /// For its user.
    message: String,
    /// For trail and log, which admins read.
    detail: String,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { detail: message.clone(), message }
    }
}

impl From<&FetchError> for Failure {
    /// Users do not see what address a name has within the network.
    fn from(error: &FetchError) -> Self {
        let FetchError { code, url, .. } = error;
        let detail = error.to_string();
        match code {
            FetchCode::GuardPrivateAddress => {
                Self { message: format!("{code}: {} ({url})", code.meaning()), detail }
            }
            _ => detail.into(),
        }
    }
}

/// The stage `fetch`.
#[derive(Debug)]
pub(super) struct FetchStage {
    pub(super) broker: Arc<dyn Broker>,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) responses: QueueName,
    pub(super) settings: RequestSettings,
    /// Maximum size of the scraped data.
    pub(super) max_data_bytes: usize,
}

impl FetchStage {
    async fn process(&self, item: Item<Input>, context: &Context) -> Result<Done, StageError> {
        let valid = match item.value {
            Input::Valid(valid) => valid,
            Input::Invalid { head, reason } => {
                let answer = head.failed(&self.responses, &format!("invalid request: {reason}"));
                publish(&*self.broker, answer).await?;
                return Err(StageError::Permanent { reason });
            }
        };
        let now = context.clock.now();
        if valid.deadline.is_some_and(|deadline| deadline <= now) {
            let created_at = &valid.head.created_at;
            let error =
                format!("no attempt before the deadline of the request, which was created at {created_at}");
            return Ok(self.failed(&valid.head, error.into()));
        }
        let fetched = match self.fetch(&valid, context).await {
            // The request would pass its deadline without this reason.
            Err(StageError::DeferGroup { until, reason })
                if valid.deadline.is_some_and(|deadline| until + DEADLINE_MARGIN >= deadline) =>
            {
                Err(format!("the deadline is before the next attempt; {reason}").into())
            }
            fetched => fetched?,
        };
        match fetched {
            Ok(response) => {
                fail::passed(NAME, FetchStep::Fetched.name());
                let status = response.status;
                let data = scrape(&valid.url, response, self.max_data_bytes).await?;
                let publish = vec![valid.head.completed(&self.responses, &data)];
                let detail = Some(format!("answered {status}"));
                Ok(Output { publish, detail, ..Output::empty("completed") })
            }
            Err(error) => Ok(self.failed(&valid.head, error)),
        }
    }

    fn failed(&self, head: &Head, failure: Failure) -> Done {
        let publish = vec![head.failed(&self.responses, &failure.message)];
        Output { publish, detail: Some(failure.detail), ..Output::empty("failed") }
    }

    /// Fetches with retries: the response, or the error of the last attempt.
    async fn fetch(
        &self,
        valid: &Valid,
        context: &Context,
    ) -> Result<Result<FetchResponse, Failure>, StageError> {
        let mut last_error = None;
        for attempt in 1..=self.settings.max_attempts.max(1) {
            if attempt > 1 {
                tokio::select! {
                    () = tokio::time::sleep(BACKOFF.delay(attempt - 1)) => {}
                    _ = context.stop.requested() => {
                        let reason = "the process shuts down; the attempts begin anew".to_owned();
                        return Err(StageError::DeferItem { until: context.clock.now(), reason });
                    }
                }
            }
            // A first attempt gives its place to requests for other hosts; a further one keeps its count.
            let on_rate_limit =
                if attempt == 1 { OnRateLimit::Defer } else { OnRateLimit::Wait { max_wait: MAX_WAIT } };
            let request = Request {
                ticket: Ticket::of(&format!("{} {}", valid.head.key.id, valid.head.key.email)),
                url: valid.normal_url.clone(),
                robots_max_wait: self.settings.timeout,
                on_rate_limit,
                ..self.settings.request.clone()
            };
            match classify(self.fetcher.fetch(&request).await, context.clock.now()) {
                Attempt::Fetched(response) => return Ok(Ok(*response)),
                Attempt::Refused(error) => return Ok(Err(error)),
                Attempt::Failed(error) => last_error = Some(error),
                Attempt::Deferred(deferral) => match last_error.take() {
                    None => return Err(deferral),
                    Some(error) => return Ok(Err(format!("attempts: {}; {error}", attempt - 1).into())),
                },
            }
        }
        let error = last_error.unwrap_or_else(|| "no attempt was made".to_owned());
        Ok(Err(format!("attempts: {}; {error}", self.settings.max_attempts).into()))
    }
}

/// Publishes a message; an error means that the item waits.
pub(super) async fn publish(broker: &dyn Broker, message: Outgoing) -> Result<(), StageError> {
    let answer = broker.publish(vec![message]).await.pop();
    match answer {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(StageError::Unavailable { error: error.to_string() }),
        None => Err(StageError::Unavailable { error: "the broker gave no answer".to_owned() }),
    }
}

fn classify(fetched: Result<FetchResponse, FetchError>, now: Timestamp) -> Attempt {
    let error = match fetched {
        Ok(response) if response.status.is_success() => return Attempt::Fetched(Box::new(response)),
        Ok(response) => return of_status(response.status),
        Err(error) => error,
    };
    let text = error.to_string();
    match error.code {
        FetchCode::RateLimited | FetchCode::BreakerOpen | FetchCode::RobotsWait => {
            let until = error.not_before.unwrap_or(now + RETRY_DELAY);
            Attempt::Deferred(StageError::DeferGroup { until, reason: text.into() })
        }
        FetchCode::MemoryWait => {
            Attempt::Deferred(StageError::DeferItem { until: now + RETRY_DELAY, reason: text })
        }
        FetchCode::RateLimiterUnavailable => Attempt::Deferred(StageError::Unavailable { error: text }),
        code if code.is_transient() => Attempt::Failed(text),
        _ => Attempt::Refused(Failure::from(&error)),
    }
}

/// Failure of a response without success; another attempt may help unless it is a client error.
fn of_status(status: StatusCode) -> Attempt {
    let error = format!("http.{}: answered {status}", status.as_u16());
    let is_temporary =
        matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    if status.is_server_error() || is_temporary {
        Attempt::Failed(error)
    } else {
        Attempt::Refused(error.into())
    }
}

#[async_trait::async_trait]
impl Stage for FetchStage {
    type In = Input;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, delivery: &Delivery) -> Result<Input, Invalid> {
        let message = &delivery.message;
        let read = || {
            let head = Head::read(message)?;
            let (url, normal_url) = message::read_request(message::body_of(message)?)?;
            let created = Timestamp::from_iso(&head.created_at).filter(|_| delivery.replays == 0);
            let deadline = created.map(|created| created + self.settings.timeout);
            Ok(Valid { head, url, normal_url, deadline })
        };
        match read() {
            Ok(valid) => Ok(Input::Valid(valid)),
            Err(Invalid(reason)) => match Head::answerable(message) {
                Some(head) => Ok(Input::Invalid { head, reason }),
                None => Err(Invalid(reason)),
            },
        }
    }

    fn subject(&self, input: &Input) -> Option<String> {
        match input {
            Input::Valid(valid) => Some(valid.normal_url.as_str().to_owned()),
            Input::Invalid { .. } => None,
        }
    }

    fn item_id(&self, input: &Input) -> Option<MessageId> {
        match input {
            Input::Valid(valid) => Some(MessageId::from(&*valid.head.key.id)),
            Input::Invalid { head, .. } => Some(MessageId::from(&*head.key.id)),
        }
    }

    async fn run(&self, batch: Vec<Item<Input>>, context: &Context) -> Vec<Result<Done, StageError>> {
        join_all(batch.into_iter().map(|item| self.process(item, context))).await
    }
}
