//! Publisher with confirms: coalesces concurrent calls into batches, one channel per batch in flight.
//!
//! The client hands a returned message to whichever confirm comes next, so that a channel serves one batch at a time.

use crate::{
    error::SessionError,
    session::{pipelined, with_timeout},
    wire::{Publication, short},
};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, oneshot},
};

/// Maximum number of batches that await their confirms at a time, each on a channel of its own.
const MAX_BATCHES: usize = 4;
/// Maximum number of messages in a batch.
const MAX_BATCH_MESSAGES: usize = 1000;
/// Maximum size of a batch in bytes, unless a single message is larger.
const MAX_BATCH_BYTES: usize = 16 << 20;
/// Reason of an unsent message while the server blocks publishing.
const BLOCKED: &str = "RabbitMQ is short of memory or disk and takes no publishes; make room there";

/// Outcome of one publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// Durable in every queue it was routed to.
    Confirmed,
    /// Nacked: a queue is full.
    Rejected,
    /// Returned: no queue matches.
    Unroutable,
    /// Larger than the server's limit, in bytes.
    TooLarge(u64),
    /// Sent, without a confirm.
    Unknown(String),
    /// Not sent.
    Unsent(String),
}

/// One call, with the sender for its outcomes.
struct Request {
    publications: Vec<Publication>,
    reply: oneshot::Sender<Vec<PublishOutcome>>,
}

/// Publishing side of a session.
pub(crate) struct Publisher {
    connection: Arc<Connection>,
    confirm_timeout: Duration,
    runtime: Handle,
    pending: Mutex<VecDeque<Request>>,
    batch_permits: Semaphore,
    /// Idle channels in confirm mode.
    idle_channels: Mutex<Vec<Channel>>,
    /// Channels that still have frames to send when the server unblocks. Closing one before would make the server close the
    /// connection.
    blocked_channels: Mutex<Vec<Channel>>,
    /// Tells the supervisor that the server does not answer.
    unresponsive: Arc<Notify>,
}

impl Publisher {
    pub(crate) fn new(
        connection: Arc<Connection>,
        confirm_timeout: Duration,
        unresponsive: Arc<Notify>,
    ) -> Self {
        Self {
            connection,
            confirm_timeout,
            runtime: Handle::current(),
            pending: Mutex::default(),
            batch_permits: Semaphore::new(MAX_BATCHES),
            idle_channels: Mutex::default(),
            blocked_channels: Mutex::default(),
            unresponsive,
        }
    }

    /// Publishes in order; one outcome each.
    pub(crate) async fn publish(self: &Arc<Self>, publications: Vec<Publication>) -> Vec<PublishOutcome> {
        let count = publications.len();
        if count == 0 {
            return Vec::new();
        }
        if self.connection.status().blocked() {
            return vec![PublishOutcome::Unsent(BLOCKED.into()); count];
        }
        let (reply, outcomes) = oneshot::channel();
        self.pending.lock().push_back(Request { publications, reply });
        // A task of its own: the batch may include other callers' messages, which must not suffer from a cancelled call.
        let publisher = self.clone();
        self.runtime.spawn(async move { publisher.send_pending().await });
        let closed = || PublishOutcome::Unknown("the broker was closed".into());
        outcomes.await.unwrap_or_else(|_| vec![closed(); count])
    }

    /// Sends the pending requests once a batch may start; another task may have sent them by then.
    async fn send_pending(&self) {
        let Ok(_permit) = self.batch_permits.acquire().await else { return };
        let (publications, replies): (Vec<Vec<Publication>>, Vec<_>) =
            self.take_pending().into_iter().map(|request| (request.publications, request.reply)).unzip();
        let counts: Vec<usize> = publications.iter().map(Vec::len).collect();
        let publications: Vec<Publication> = publications.into_iter().flatten().collect();
        let mut outcomes = self.send(&publications).await.into_iter();
        for (count, reply) in counts.into_iter().zip(replies) {
            let _ = reply.send(outcomes.by_ref().take(count).collect());
        }
    }

    /// Takes requests from the front until a batch is full.
    fn take_pending(&self) -> Vec<Request> {
        let mut pending = self.pending.lock();
        let (mut count, mut bytes) = (0, 0);
        let fitting = pending.iter().take_while(|request| {
            let fits = count < MAX_BATCH_MESSAGES && bytes < MAX_BATCH_BYTES;
            count += request.publications.len();
            bytes += request.publications.iter().map(|publication| publication.body.len()).sum::<usize>();
            fits
        });
        let fitting = fitting.count();
        pending.drain(..fitting).collect()
    }

    /// Sends all messages, in as many batches as the limits require.
    async fn send(&self, publications: &[Publication]) -> Vec<PublishOutcome> {
        let mut outcomes = Vec::with_capacity(publications.len());
        let mut rest = publications;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |publication: &&Publication| {
                bytes += publication.body.len();
                bytes <= MAX_BATCH_BYTES
            };
            let count = rest.iter().take(MAX_BATCH_MESSAGES).take_while(fits).count().max(1);
            let (batch, later) = rest.split_at(count);
            outcomes.extend(self.send_batch(batch).await);
            rest = later;
        }
        outcomes
    }

    async fn send_batch(&self, batch: &[Publication]) -> Vec<PublishOutcome> {
        let unsent = |reason: String| vec![PublishOutcome::Unsent(reason); batch.len()];
        if self.connection.status().blocked() {
            return unsent(BLOCKED.into());
        }
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(error) => return unsent(error.to_string()),
        };
        let timeout = self.confirm_timeout;
        let answers = pipelined(batch.iter().map(|publication| {
            let channel = &channel;
            async move {
                let confirm = channel
                    .basic_publish(
                        short(&publication.exchange),
                        short(&publication.routing_key),
                        BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() },
                        &publication.body,
                        publication.properties.clone(),
                    )
                    .await?;
                confirm.await
            }
        }));
        // One timeout for the batch: a server that confirms some and then stops is as unresponsive as one that confirms none.
        let Ok(answers) = tokio::time::timeout(timeout, answers).await else {
            if self.connection.status().blocked() {
                self.blocked_channels.lock().push(channel);
            } else {
                self.unresponsive.notify_one();
            }
            return vec![PublishOutcome::Unknown(format!("no confirm within {timeout:?}")); batch.len()];
        };
        let mut returned = Returned::default();
        let mut channel_open = true;
        let mut size_limit = None;
        let mut outcomes: Vec<PublishOutcome> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(Confirmation::Ack(message)) => {
                    returned.note(message);
                    PublishOutcome::Confirmed
                }
                Ok(Confirmation::Nack(message)) => {
                    returned.note(message);
                    PublishOutcome::Rejected
                }
                Ok(Confirmation::NotRequested) => {
                    PublishOutcome::Unknown("the channel does not confirm".into())
                }
                Err(error) => {
                    channel_open = false;
                    let error = error.to_string();
                    size_limit = size_limit.or_else(|| parse_size_limit(&error));
                    PublishOutcome::Unknown(error)
                }
            })
            .collect();
        for (publication, outcome) in batch.iter().zip(&mut outcomes) {
            match (&*outcome, size_limit) {
                (PublishOutcome::Confirmed, _) if returned.take(publication) => {
                    *outcome = PublishOutcome::Unroutable;
                }
                // It cost the whole batch its confirms, and must not be sent again.
                (PublishOutcome::Unknown(_), Some(limit)) if publication.body.len() as u64 > limit => {
                    *outcome = PublishOutcome::TooLarge(limit);
                }
                _ => {}
            }
        }
        if channel_open {
            self.idle_channels.lock().push(channel);
        }
        outcomes
    }

    async fn channel(&self) -> Result<Channel, SessionError> {
        let idle = self.idle_channels.lock().pop().filter(|channel| channel.status().connected());
        if let Some(channel) = idle {
            return Ok(channel);
        }
        let create = self.connection.create_channel();
        let channel = with_timeout(self.confirm_timeout, "channel.open", create).await?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        with_timeout(self.confirm_timeout, "confirm.select", select).await?;
        Ok(channel)
    }
}

/// Size limit in the text with which the server closes the channel: `… is larger than configured max size 128`.
fn parse_size_limit(error: &str) -> Option<u64> {
    let (_, rest) = error.split_once("larger than configured max size ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returned messages of a batch, counted by exchange, routing key and message id, since the client cannot say which publish
/// a return belongs to.
#[derive(Default)]
struct Returned(HashMap<(String, String, String), usize>);

impl Returned {
    fn note(&mut self, message: Option<lapin::message::BasicReturnMessage>) {
        if let Some(message) = message {
            let delivery = message.delivery;
            let key =
                (delivery.exchange.to_string(), delivery.routing_key.to_string(), id(&delivery.properties));
            *self.0.entry(key).or_default() += 1;
        }
    }

    fn take(&mut self, publication: &Publication) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let key =
            (publication.exchange.clone(), publication.routing_key.clone(), id(&publication.properties));
        match self.0.get_mut(&key) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

fn id(properties: &BasicProperties) -> String {
    properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default()
}
