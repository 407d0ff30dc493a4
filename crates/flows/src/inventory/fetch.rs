//! The stage `fetch`: waits for its turn, begins an attempt at a URL, fetches it, and ends the attempt. The record counts, the queue does not.

use super::{
    message::{self, Asked, UrlMessage},
    page,
    wiring::InventorySettings,
};
use crawlway_broker::{Delivery, MessageId, Outgoing, QueueName};
use crawlway_fetch::{Code, FetchError, Fetched, Fetcher, Request, Waiting};
use crawlway_flow::{
    Context, Counted, EffectError, Invalid, Item, MAX_DEFER, Output, Stage, StageError, fail,
};
use crawlway_store::{
    StoreError, Ticket, Timestamp, UrlRecords,
    inventory::{self, Attempt, Begun, Ended, Status},
};
use futures::future::join_all;
use http::StatusCode;
use std::{sync::Arc, time::Duration};

/// Pages above this size are read on a thread of their own.
const LARGE: usize = 256 << 10;

/// The steps of a URL's way that are this stage's own, for fail points; the runner has its own besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InventoryStep {
    /// The record is in progress.
    Begun,
    /// The answer is here.
    Fetched,
    /// The record is completed.
    Completed,
    /// The record has failed, to be tried again or for good.
    Failed,
}

impl InventoryStep {
    /// All of them, in order.
    pub const ALL: [InventoryStep; 4] = [Self::Begun, Self::Fetched, Self::Completed, Self::Failed];

    /// Its name in the variable that names where to die.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Fetched => "fetched",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// The stage's name, in trails, metrics and fail points.
pub(super) const NAME: &str = "fetch";
/// The name of the stage that takes URLs whose hosts could not be reached.
pub(super) const NAME_WAITING: &str = "fetch_waiting";

type Done = Output<(), ()>;

/// Why an answer is no success.
struct Failure {
    error: String,
    /// No further try can help.
    permanent: bool,
}

/// The stage.
#[derive(Debug)]
pub(super) struct FetchStage {
    name: &'static str,
    /// The queue in which URLs wait whose hosts cannot be reached; none for the stage that takes from it.
    waiting: Option<QueueName>,
    records: Arc<dyn UrlRecords>,
    fetcher: Arc<Fetcher>,
    settings: InventorySettings,
}

impl FetchStage {
    /// The stage that takes what was asked for, and puts what has to wait into this queue.
    pub(super) fn new(
        records: Arc<dyn UrlRecords>,
        fetcher: Arc<Fetcher>,
        settings: InventorySettings,
        waiting: QueueName,
    ) -> Self {
        Self { name: NAME, waiting: Some(waiting), records, fetcher, settings }
    }

    /// The stage that takes what waits.
    pub(super) fn of_waiting(
        records: Arc<dyn UrlRecords>,
        fetcher: Arc<Fetcher>,
        settings: InventorySettings,
    ) -> Self {
        Self { name: NAME_WAITING, waiting: None, records, fetcher, settings }
    }

    async fn one(&self, item: Item<Asked>, context: &Context) -> Result<Done, StageError> {
        let Item { value: Asked { url, requested_at, message_id }, counted, .. } = item;
        let asked =
            inventory::Request { url: url.as_str().to_owned(), message_id: message_id.clone(), requested_at };
        let request = Request {
            ticket: Ticket::of(&format!("{message_id} {url}")),
            url,
            waiting: Waiting::Elsewhere,
            ..self.settings.request.clone()
        };
        let mut attempt = None;
        let (begun, asked, counted) = (&mut attempt, &asked, &counted);
        // A URL that waits for its turn is not in progress.
        let begin = || async move {
            *begun = Some(self.begin(asked, counted, context).await?);
            Ok(())
        };
        let fetched = match self.fetcher.fetch_after(&request, begin).await {
            Ok(fetched) => fetched,
            Err(ended) => return ended,
        };
        fail::passed(NAME, InventoryStep::Fetched.name());
        if attempt.is_none() && fetched.is_err() {
            // It waits, or ends before its first request: a read of its record finds that it was accepted.
            self.records.mark_queued(std::slice::from_ref(asked), context.clock.now()).await?;
        }
        if let (Err(error), Some(queue)) = (&fetched, &self.waiting)
            && matches!(error.code, Code::RobotsWait | Code::GateOpen)
        {
            return Ok(put_aside(queue, asked, error, context.clock.now()));
        }
        let judged = judged(fetched, context.clock.now())?;
        // What failed before its first request, as a name that does not exist, has begun nothing yet.
        let attempt = match attempt {
            Some(attempt) => attempt,
            None => match self.begin(asked, counted, context).await {
                Ok(attempt) => attempt,
                Err(ended) => return ended,
            },
        };
        match judged {
            Ok(answer) => self.complete(&attempt, answer, context).await,
            Err(failure) => self.failed(&attempt, failure, context).await,
        }
    }

    /// Begins an attempt: its record is in progress. Else says how the item ends without one.
    async fn begin(
        &self,
        asked: &inventory::Request,
        counted: &Counted,
        context: &Context,
    ) -> Result<Attempt, Result<Done, StageError>> {
        match self.records.begin(asked, context.clock.now()).await {
            Ok(Begun::Yours { attempt, retry_count }) => {
                counted.failures(retry_count);
                fail::passed(NAME, InventoryStep::Begun.name());
                Ok(attempt)
            }
            Ok(Begun::Finished { status, retry_count }) => {
                // The last of the failures ended it, and its worker was lost before it could say so: the source counts
                // that one.
                let also_lost = u32::from(status == Status::FailedPermanent);
                counted.failures(retry_count.saturating_sub(also_lost));
                Err(Ok(told("finished_before", status.to_string())))
            }
            Ok(Begun::Superseded { by }) => Err(Ok(told("superseded", format!("by message {by}")))),
            Err(error) => Err(Err(error.into())),
        }
    }

    async fn complete(
        &self,
        attempt: &Attempt,
        mut answer: Fetched,
        context: &Context,
    ) -> Result<Done, StageError> {
        let most = self.settings.most_source;
        let status = answer.status;
        let read_most = answer.share.page_most() / page::READ;
        if answer.share.cover(answer.body.len().min(read_most) * page::READ).await.is_err() {
            let why = "other pages have all the memory that pages may take together".to_owned();
            return Err(StageError::HeldUp { until: context.clock.now() + Duration::from_secs(1), why });
        }
        // The answer lives until its record is stored, and its share of the memory with it.
        let (kept, _answer) = if answer.body.len() < LARGE {
            (page::kept(&answer, most, read_most), answer)
        } else {
            let reading =
                tokio::task::spawn_blocking(move || (page::kept(&answer, most, read_most), answer)).await;
            reading.map_err(|error| StageError::Transient {
                after: None,
                error: format!("reading the answer: {error}"),
            })?
        };
        let ended = match self.records.complete(attempt, &kept, context.clock.now()).await {
            Err(StoreError::Invalid { problem }) => {
                return self.failed(attempt, Failure { error: problem, permanent: true }, context).await;
            }
            ended => ended?,
        };
        fail::passed(NAME, InventoryStep::Completed.name());
        match ended {
            Ended::As { status: Status::Completed, .. } => {
                Ok(told("completed", format!("answered {status}")))
            }
            other => otherwise(other, context.clock.now()),
        }
    }

    async fn failed(
        &self,
        attempt: &Attempt,
        failure: Failure,
        context: &Context,
    ) -> Result<Done, StageError> {
        let Failure { error, permanent } = failure;
        let most_tries = if permanent { 1 } else { self.settings.most_tries };
        let ended = self.records.fail(attempt, &error, most_tries, context.clock.now()).await?;
        fail::passed(NAME, InventoryStep::Failed.name());
        match ended {
            Ended::As { status: Status::FailedRetryable, retry_count } => {
                Err(StageError::Again { error: format!("try {retry_count} of {most_tries}: {error}") })
            }
            Ended::As { status: Status::FailedPermanent, retry_count } => {
                Ok(told("failed", format!("after {retry_count} failed tries: {error}")))
            }
            other => otherwise(other, context.clock.now()),
        }
    }
}

/// Sends a URL whose host cannot be reached on to the queue of those, so that it takes up no room among the URLs of other
/// hosts.
fn put_aside(queue: &QueueName, asked: &inventory::Request, error: &FetchError, now: Timestamp) -> Done {
    let message = UrlMessage {
        url: asked.url.clone(),
        requested_at: asked.requested_at.to_iso(),
        message_id: asked.message_id.clone(),
    };
    // Nothing in the message can fail to be written.
    let body = serde_json::to_vec(&message).unwrap_or_default();
    let until = error.not_before.unwrap_or(now).min(now + MAX_DEFER);
    let outgoing =
        Outgoing::to_queue(queue, body).id(MessageId::from(asked.message_id.as_str())).not_before(until);
    Output { publish: vec![outgoing], ..told("waiting", error.to_string()) }
}

/// What becomes of an item whose attempt did not end as its worker meant it to.
fn otherwise(ended: Ended, now: Timestamp) -> Result<Done, StageError> {
    match ended {
        Ended::As { status, .. } => Ok(told("finished_before", status.to_string())),
        Ended::Overtaken => Ok(told("overtaken", "a later attempt has the record".to_owned())),
        Ended::Lost => {
            Err(StageError::NotYet { until: now, why: "its record is gone, so it begins again".into() })
        }
    }
}

fn told(outcome: &'static str, detail: String) -> Done {
    Output { detail: Some(detail), ..Output::nothing(outcome) }
}

/// What a fetch means: an answer, a failure that counts, or a wait that does not.
fn judged(
    fetched: Result<Fetched, FetchError>,
    now: Timestamp,
) -> Result<Result<Fetched, Failure>, StageError> {
    let error = match fetched {
        Ok(answer) if answer.status.is_success() => return Ok(Ok(answer)),
        Ok(answer) => return Ok(Err(of_status(answer.status))),
        Err(error) => error,
    };
    let text = error.to_string();
    match error.code {
        Code::GateWait | Code::GateOpen | Code::RobotsWait => Err(StageError::NotYet {
            until: error.not_before.unwrap_or(now + Duration::from_secs(1)),
            why: text.into(),
        }),
        Code::MemoryWait => Err(StageError::HeldUp { until: now + Duration::from_secs(1), why: text }),
        Code::GateUnavailable => Err(StageError::Ours { error: text }),
        code => Ok(Err(Failure { error: text, permanent: !code.is_transient() })),
    }
}

/// An answer that is no page: what the server may answer otherwise next time is tried again.
fn of_status(status: StatusCode) -> Failure {
    let passing =
        matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS);
    Failure {
        error: format!("http.{}: answered {status}", status.as_u16()),
        permanent: status.is_client_error() && !passing,
    }
}

#[async_trait::async_trait]
impl Stage for FetchStage {
    type In = Asked;
    type Effect = ();
    type Note = ();

    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, delivery: &Delivery) -> Result<Asked, Invalid> {
        message::read(&delivery.message.body)
    }

    fn subject(&self, asked: &Asked) -> Option<String> {
        Some(asked.url.as_str().to_owned())
    }

    fn own_id(&self, asked: &Asked) -> Option<MessageId> {
        Some(MessageId::from(asked.message_id.as_str()))
    }

    async fn run(&self, batch: Vec<Item<Asked>>, context: &Context) -> Vec<Result<Done, StageError>> {
        join_all(batch.into_iter().map(|item| self.one(item, context))).await
    }

    async fn after_publish(&self, _effects: &[&()], _context: &Context) -> Result<(), EffectError> {
        Ok(())
    }
}
