//! The stage `fetch`: begins an attempt when the rate limiter grants a permit, fetches the URL, and ends the attempt. The
//! record counts attempts, not the queue.

use super::{
    message::{self, UrlMessage, UrlRequest},
    page,
    wiring::InventorySettings,
};
use crawlway_broker::{Delivery, MessageId, Outgoing, QueueName};
use crawlway_fetch::{FetchCode, FetchError, FetchResponse, Fetcher, OnRateLimit, Request};
use crawlway_flow::{Context, FailureCounter, Invalid, Item, MAX_DEFER, Output, Stage, StageError, fail};
use crawlway_store::{
    StoreError, Ticket, Timestamp, UrlRecords,
    inventory::{self, Attempt, BeginOutcome, EndOutcome, RecordStatus},
};
use futures::future::join_all;
use http::StatusCode;
use std::{sync::Arc, time::Duration};

/// Size from which on bodies are decoded on a blocking thread.
const BLOCKING_FROM_BYTES: usize = 256 << 10;

/// Delay of a deferral without a time of its own.
const RETRY_DELAY: Duration = Duration::from_secs(1);

crawlway_flow::fail_points! {
    /// Fail points of this stage, beside those of the runner.
    InventoryStep {
        /// The record is in progress.
        Begun = "begun",
        /// The response is received.
        Fetched = "fetched",
        /// The record is completed.
        Completed = "completed",
        /// The record has failed, temporarily or permanently.
        Failed = "failed",
    }
}

/// Name of the stage in trails, metrics and fail points.
pub(super) const NAME: &str = "fetch";
/// Name of the stage for URLs whose hosts are unreachable.
pub(super) const NAME_WAITING: &str = "fetch_waiting";

type Done = Output<(), ()>;

/// Failed attempt.
struct Failure {
    error: String,
    /// Whether a retry cannot help.
    permanent: bool,
}

/// The stage `fetch`.
#[derive(Debug)]
pub(super) struct FetchStage {
    name: &'static str,
    /// Queue for URLs whose hosts are unreachable; `None` for the stage that consumes it.
    waiting: Option<QueueName>,
    records: Arc<dyn UrlRecords>,
    fetcher: Arc<Fetcher>,
    settings: InventorySettings,
}

impl FetchStage {
    /// Stage of requested URLs, which moves those of unreachable hosts to this queue.
    pub(super) fn new(
        records: Arc<dyn UrlRecords>,
        fetcher: Arc<Fetcher>,
        settings: InventorySettings,
        waiting: QueueName,
    ) -> Self {
        Self { name: NAME, waiting: Some(waiting), records, fetcher, settings }
    }

    /// Stage of URLs whose hosts are unreachable.
    pub(super) fn of_waiting(
        records: Arc<dyn UrlRecords>,
        fetcher: Arc<Fetcher>,
        settings: InventorySettings,
    ) -> Self {
        Self { name: NAME_WAITING, waiting: None, records, fetcher, settings }
    }

    async fn process(&self, item: Item<UrlRequest>, context: &Context) -> Result<Done, StageError> {
        let Item { value, failures, .. } = item;
        let record = &value.record_request();
        let request = Request {
            ticket: Ticket::of(&format!("{} {}", value.message_id, value.url)),
            url: value.url,
            on_rate_limit: OnRateLimit::Defer,
            ..self.settings.request.clone()
        };
        let mut attempt = None;
        let (begun, failures) = (&mut attempt, &failures);
        // Called with a permit of the rate limiter: a deferred URL is not in progress.
        let begin = || async move {
            *begun = Some(self.begin(record, failures, context).await?);
            Ok(())
        };
        let fetched = match self.fetcher.fetch_after(&request, begin).await {
            Ok(fetched) => fetched,
            Err(ended) => return ended,
        };
        fail::passed(NAME, InventoryStep::Fetched.name());
        if attempt.is_none() && fetched.is_err() {
            // Deferred, or failed before the first request: the record shows that the URL was accepted.
            self.records.mark_queued(std::slice::from_ref(record), context.clock.now()).await?;
        }
        if let (Err(error), Some(queue)) = (&fetched, &self.waiting)
            && matches!(error.code, FetchCode::RobotsWait | FetchCode::BreakerOpen)
        {
            return Ok(move_to_waiting(queue, record, error, context.clock.now()));
        }
        let response = classify(fetched, context.clock.now())?;
        // A failure before the first request, such as an unknown host name, has no attempt yet.
        let attempt = match attempt {
            Some(attempt) => attempt,
            None => match self.begin(record, failures, context).await {
                Ok(attempt) => attempt,
                Err(ended) => return ended,
            },
        };
        match response {
            Ok(response) => self.complete(&attempt, response, context).await,
            Err(failure) => self.fail(&attempt, failure, context).await,
        }
    }

    /// Begins an attempt: the record is in progress. The error is the end of an item without an attempt.
    async fn begin(
        &self,
        record: &inventory::RecordRequest,
        failures: &FailureCounter,
        context: &Context,
    ) -> Result<Attempt, Result<Done, StageError>> {
        match self.records.begin(record, context.clock.now()).await {
            Ok(BeginOutcome::Started { attempt, retry_count }) => {
                failures.set(retry_count);
                fail::passed(NAME, InventoryStep::Begun.name());
                Ok(attempt)
            }
            Ok(BeginOutcome::AlreadyFinished { status, retry_count }) => {
                // The source counts the last failure, whose worker was lost before it settled the item.
                let lost = u32::from(status == RecordStatus::FailedPermanent);
                failures.set(retry_count.saturating_sub(lost));
                Err(Ok(output("finished_before", status.to_string())))
            }
            Ok(BeginOutcome::Superseded { by }) => Err(Ok(output("superseded", format!("by message {by}")))),
            Err(error) => Err(Err(error.into())),
        }
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        mut response: FetchResponse,
        context: &Context,
    ) -> Result<Done, StageError> {
        let (status, max_source) = (response.status, self.settings.max_source_bytes);
        let max_body = response.memory_reservation.max_page_bytes() / page::DECODE_MEMORY_FACTOR;
        let memory = response.body.len().min(max_body) * page::DECODE_MEMORY_FACTOR;
        if response.memory_reservation.grow_to(memory).await.is_err() {
            let reason = "the memory budget is used up by other pages".to_owned();
            return Err(StageError::DeferItem { until: context.clock.now() + RETRY_DELAY, reason });
        }
        // The response lives until its record is stored, and holds its memory share.
        let (content, _response) = if response.body.len() < BLOCKING_FROM_BYTES {
            (page::content(&response, max_source, max_body), response)
        } else {
            let decode = move || (page::content(&response, max_source, max_body), response);
            tokio::task::spawn_blocking(decode).await.map_err(|error| StageError::Transient {
                after: None,
                error: format!("decoding the response: {error}"),
            })?
        };
        let ended = match self.records.complete(attempt, &content, context.clock.now()).await {
            Err(StoreError::Invalid { problem }) => {
                return self.fail(attempt, Failure { error: problem, permanent: true }, context).await;
            }
            ended => ended?,
        };
        fail::passed(NAME, InventoryStep::Completed.name());
        match ended {
            EndOutcome::Recorded { status: RecordStatus::Completed, .. } => {
                Ok(output("completed", format!("answered {status}")))
            }
            other => ended_elsewhere(other, context.clock.now()),
        }
    }

    async fn fail(&self, attempt: &Attempt, failure: Failure, context: &Context) -> Result<Done, StageError> {
        let Failure { error, permanent } = failure;
        let max_attempts = if permanent { 1 } else { self.settings.max_attempts };
        let ended = self.records.fail(attempt, &error, max_attempts, context.clock.now()).await?;
        fail::passed(NAME, InventoryStep::Failed.name());
        match ended {
            EndOutcome::Recorded { status: RecordStatus::FailedRetryable, retry_count } => {
                Err(StageError::Requeue {
                    error: format!("attempt {retry_count} of {max_attempts}: {error}"),
                })
            }
            EndOutcome::Recorded { status: RecordStatus::FailedPermanent, retry_count } => {
                Ok(output("failed", format!("failed attempts: {retry_count}; {error}")))
            }
            other => ended_elsewhere(other, context.clock.now()),
        }
    }
}

/// Moves a URL of an unreachable host to the queue of those, so that it takes no room from URLs of other hosts.
fn move_to_waiting(
    queue: &QueueName,
    record: &inventory::RecordRequest,
    error: &FetchError,
    now: Timestamp,
) -> Done {
    let message = UrlMessage {
        url: record.url.clone(),
        requested_at: record.requested_at.to_iso(),
        message_id: record.message_id.clone(),
    };
    let until = error.not_before.unwrap_or(now).min(now + MAX_DEFER);
    let id = MessageId::from(record.message_id.as_str());
    let outgoing = Outgoing::to_queue(queue, message.to_body()).id(id).not_before(until);
    Output { publish: vec![outgoing], ..output("waiting", error.to_string()) }
}

/// End of an item whose attempt was ended by another worker.
fn ended_elsewhere(ended: EndOutcome, now: Timestamp) -> Result<Done, StageError> {
    match ended {
        EndOutcome::Recorded { status, .. } => Ok(output("finished_before", status.to_string())),
        EndOutcome::Fenced => Ok(output("overtaken", "a later attempt has the record".to_owned())),
        EndOutcome::NotFound => Err(StageError::DeferGroup {
            until: now,
            reason: "its record was deleted; it starts again".into(),
        }),
    }
}

fn output(outcome: &'static str, detail: String) -> Done {
    Output { detail: Some(detail), ..Output::empty(outcome) }
}

/// Classifies the result of a fetch: response, failed attempt, or deferral.
fn classify(
    fetched: Result<FetchResponse, FetchError>,
    now: Timestamp,
) -> Result<Result<FetchResponse, Failure>, StageError> {
    let error = match fetched {
        Ok(response) if response.status.is_success() => return Ok(Ok(response)),
        Ok(response) => return Ok(Err(of_status(response.status))),
        Err(error) => error,
    };
    let text = error.to_string();
    match error.code {
        FetchCode::RateLimited | FetchCode::BreakerOpen | FetchCode::RobotsWait => {
            Err(StageError::DeferGroup {
                until: error.not_before.unwrap_or(now + RETRY_DELAY),
                reason: text.into(),
            })
        }
        FetchCode::MemoryWait => Err(StageError::DeferItem { until: now + RETRY_DELAY, reason: text }),
        FetchCode::RateLimiterUnavailable => Err(StageError::Unavailable { error: text }),
        code => Ok(Err(Failure { error: text, permanent: !code.is_transient() })),
    }
}

/// Failure of a response without success; temporary unless it is a client error.
fn of_status(status: StatusCode) -> Failure {
    let is_temporary =
        matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    Failure {
        error: format!("http.{}: answered {status}", status.as_u16()),
        permanent: status.is_client_error() && !is_temporary,
    }
}

#[async_trait::async_trait]
impl Stage for FetchStage {
    type In = UrlRequest;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, delivery: &Delivery) -> Result<UrlRequest, Invalid> {
        message::decode(&delivery.message.body)
    }

    fn subject(&self, request: &UrlRequest) -> Option<String> {
        Some(request.url.as_str().to_owned())
    }

    fn item_id(&self, request: &UrlRequest) -> Option<MessageId> {
        Some(MessageId::from(request.message_id.as_str()))
    }

    async fn run(&self, batch: Vec<Item<UrlRequest>>, context: &Context) -> Vec<Result<Done, StageError>> {
        join_all(batch.into_iter().map(|item| self.process(item, context))).await
    }
}
