//! Publishing with confirms: what many ask for at the same time is sent together, and each is told what became of its own.

use crate::{
    error::LinkError,
    session::{pipelined, within},
    wire::{Parcel, short},
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

/// How many rounds of confirms are awaited at once, each on a channel of its own.
const ROUNDS: usize = 4;
/// How many messages are sent in one round at most.
const MOST: usize = 1000;
/// And how many bytes, unless a single message has more.
const MOST_BYTES: usize = 16 << 20;

/// What became of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Durable in every queue it was routed to.
    Confirmed,
    /// A queue did not take it.
    Rejected,
    /// No queue was there to take it.
    Unroutable,
    /// The server takes no message of more than so many bytes.
    TooLarge(u64),
    /// It was sent, and nobody said what became of it.
    Unknown(String),
    /// It was never sent.
    Unsent(String),
}

/// What one caller wants to have published, and who is to be told.
struct Request {
    parcels: Vec<Parcel>,
    tell: oneshot::Sender<Vec<Fate>>,
}

/// The publishing side of a session.
pub(crate) struct Publisher {
    connection: Arc<Connection>,
    confirm_timeout: Duration,
    runtime: Handle,
    inbox: Mutex<VecDeque<Request>>,
    rounds: Semaphore,
    /// Channels in confirm mode that are free now.
    free: Mutex<Vec<Channel>>,
    /// Channels on which something is still to be sent, and whose confirms nobody waits for any more.
    awaited: Mutex<Vec<Channel>>,
    /// Tells the supervisor that the server is silent.
    condemned: Arc<Notify>,
}

const BLOCKED: &str = "RabbitMQ is short of memory or disk and takes no publishes; make room there";

impl Publisher {
    pub(crate) fn new(
        connection: Arc<Connection>,
        confirm_timeout: Duration,
        condemned: Arc<Notify>,
    ) -> Self {
        Self {
            connection,
            confirm_timeout,
            runtime: Handle::current(),
            inbox: Mutex::default(),
            rounds: Semaphore::new(ROUNDS),
            free: Mutex::default(),
            awaited: Mutex::default(),
            condemned,
        }
    }

    /// Publishes the parcels in their order and says what became of each.
    pub(crate) async fn publish(self: &Arc<Self>, parcels: Vec<Parcel>) -> Vec<Fate> {
        let count = parcels.len();
        if count == 0 {
            return Vec::new();
        }
        if self.connection.status().blocked() {
            return vec![Fate::Unsent(BLOCKED.into()); count];
        }
        let (tell, told) = oneshot::channel();
        self.inbox.lock().push_back(Request { parcels, tell });
        // In a task of its own, since it may serve others too, who must not suffer when this caller goes away.
        let publisher = self.clone();
        self.runtime.spawn(async move { publisher.serve().await });
        told.await.unwrap_or_else(|_| vec![Fate::Unknown("the broker was closed".into()); count])
    }

    /// Serves whatever is in the inbox when it is this task's turn; another may have done so by then.
    async fn serve(&self) {
        let Ok(_round) = self.rounds.acquire().await else { return };
        let requests = self.next_round();
        if requests.is_empty() {
            return;
        }
        let (parcels, callers): (Vec<Vec<Parcel>>, Vec<_>) =
            requests.into_iter().map(|request| (request.parcels, request.tell)).unzip();
        let counts: Vec<usize> = parcels.iter().map(Vec::len).collect();
        let mut fates = self.send(&parcels.concat()).await.into_iter();
        for (count, tell) in counts.into_iter().zip(callers) {
            // Who has gone away does not need to know.
            let _ = tell.send(fates.by_ref().take(count).collect());
        }
    }

    fn next_round(&self) -> Vec<Request> {
        let mut inbox = self.inbox.lock();
        let (mut count, mut bytes) = (0, 0);
        let fitting = inbox.iter().take_while(|request| {
            let fits = count < MOST && bytes < MOST_BYTES;
            count += request.parcels.len();
            bytes += request.parcels.iter().map(|parcel| parcel.body.len()).sum::<usize>();
            fits
        });
        let fitting = fitting.count();
        inbox.drain(..fitting).collect()
    }

    /// Sends them all, in as many steps as their number and size ask for.
    async fn send(&self, parcels: &[Parcel]) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(parcels.len());
        let mut rest = parcels;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |parcel: &&Parcel| {
                bytes += parcel.body.len();
                bytes <= MOST_BYTES
            };
            let count = rest.iter().take(MOST).take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            fates.extend(self.send_some(now).await);
            rest = later;
        }
        fates
    }

    async fn send_some(&self, parcels: &[Parcel]) -> Vec<Fate> {
        // It may have been otherwise when these were put into the inbox.
        if self.connection.status().blocked() {
            return vec![Fate::Unsent(BLOCKED.into()); parcels.len()];
        }
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(error) => return vec![Fate::Unsent(error.to_string()); parcels.len()],
        };
        let limit = self.confirm_timeout;
        let answers = pipelined(parcels.iter().map(|parcel| {
            let channel = &channel;
            async move {
                let confirm = channel
                    .basic_publish(
                        short(&parcel.exchange),
                        short(&parcel.routing_key),
                        BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() },
                        &parcel.body,
                        parcel.properties.clone(),
                    )
                    .await?;
                confirm.await
            }
        }));
        // One limit for all: a server that confirms some and then stops is as silent as one that confirms none.
        let Ok(answers) = tokio::time::timeout(limit, answers).await else {
            // A server that has told us to wait is not lost.
            if self.connection.status().blocked() {
                // What was not sent yet follows when it may. Were the channel closed before, the server would close the
                // connection for it.
                self.awaited.lock().push(channel);
            } else {
                self.condemned.notify_one();
            }
            return vec![Fate::Unknown(format!("no confirm within {limit:?}")); parcels.len()];
        };
        let mut returned = Returned::default();
        let mut sound = true;
        let mut largest = None;
        let mut fates: Vec<Fate> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(Confirmation::Ack(message)) => {
                    returned.note(message);
                    Fate::Confirmed
                }
                Ok(Confirmation::Nack(message)) => {
                    returned.note(message);
                    Fate::Rejected
                }
                Ok(Confirmation::NotRequested) => Fate::Unknown("the channel does not confirm".into()),
                Err(error) => {
                    sound = false;
                    let error = error.to_string();
                    largest = largest.or_else(|| largest_taken(&error));
                    Fate::Unknown(error)
                }
            })
            .collect();
        for (parcel, fate) in parcels.iter().zip(&mut fates) {
            match (&*fate, largest) {
                (Fate::Confirmed, _) if returned.take(parcel) => *fate = Fate::Unroutable,
                // One that is too large costs all that were sent with it their confirms, but must not do so again.
                (Fate::Unknown(_), Some(limit)) if parcel.body.len() as u64 > limit => {
                    *fate = Fate::TooLarge(limit);
                }
                _ => {}
            }
        }
        if sound {
            self.free.lock().push(channel);
        }
        fates
    }

    async fn channel(&self) -> Result<Channel, LinkError> {
        let free = self.free.lock().pop().filter(|channel| channel.status().connected());
        if let Some(channel) = free {
            return Ok(channel);
        }
        let create = self.connection.create_channel();
        let channel = within(self.confirm_timeout, "open a channel", create).await?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        within(self.confirm_timeout, "confirm.select", select).await?;
        Ok(channel)
    }
}

/// `128` of `… is larger than configured max size 128`, with which a server closes the channel.
fn largest_taken(error: &str) -> Option<u64> {
    let (_, rest) = error.split_once("larger than configured max size ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What the server sent back. The client hands each to whichever confirm comes next, so they are told apart by what
/// they say; nobody else publishes on the channel meanwhile.
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

    fn take(&mut self, parcel: &Parcel) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let key = (parcel.exchange.clone(), parcel.routing_key.clone(), id(&parcel.properties));
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
