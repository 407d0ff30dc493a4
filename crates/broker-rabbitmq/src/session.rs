//! Our connections to the server from their start until one is lost: channels for administration, and channels that
//! publish with confirms.
//!
//! There are two, since a server that is short of memory or disk stops reading from connections that publish: on the
//! other one, what was taken can still be acknowledged, which is what makes room.

use crate::{
    error::{ConnectError, LinkError, not_allowed},
    options::Options,
    wire::{Parcel, short},
};
use futures::StreamExt as _;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo},
};
use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::Poll,
    time::Duration,
};
use tokio::sync::{Notify, Semaphore};

/// How many publishes may wait for their confirms at once, each on its own channel.
const PUBLISHERS: usize = 32;
/// How many messages are on their way before the first confirms are awaited.
const PIPELINED: usize = 1000;
/// And how many bytes.
const PIPELINED_BYTES: usize = 16 << 20;
/// How often a connection is looked at, should it not tell that it has ended.
const LOOK: Duration = Duration::from_millis(500);

/// What became of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Durable in every queue it was routed to.
    Confirmed,
    /// A queue did not take it.
    Rejected,
    /// No queue was there to take it.
    Unroutable,
    /// It was sent, and nobody said what became of it.
    Unknown(String),
    /// It was never sent.
    Unsent(String),
}

pub(crate) struct Session {
    pub(crate) number: u64,
    connection: Connection,
    publishing: Connection,
    confirm_timeout: Duration,
    /// Channels for administration that are free now.
    spare: Mutex<Vec<Channel>>,
    /// Channels in confirm mode that are free now.
    publishers: Mutex<Vec<Channel>>,
    turns: Semaphore,
    /// Tells the supervisor not to wait for the heartbeat.
    condemned: Notify,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("number", &self.number).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for an answer of the server, but not for ever.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &'static str,
    answer: impl Future<Output = lapin::Result<T>>,
) -> Result<T, LinkError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(LinkError::Silent { what, after: limit }),
    }
}

/// Starts all of these in their order and then waits for each, so that one round trip serves them all.
pub(crate) async fn pipelined<T>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send>,
) -> Vec<T> {
    let mut started: Vec<(Pin<Box<_>>, Option<T>)> =
        futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, done) in &mut started {
            if done.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *done = Some(value);
            }
        }
        Poll::Ready(())
    })
    .await;
    let mut values = Vec::with_capacity(started.len());
    for (future, done) in started {
        values.push(match done {
            Some(value) => value,
            None => future.await,
        });
    }
    values
}

impl Session {
    /// Connects once.
    pub(crate) async fn open(options: &Options, number: u64) -> Result<Self, (ConnectError, bool)> {
        let uri = AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: options.user.clone(), password: options.password.clone() },
                host: options.host.clone(),
                port: options.port,
            },
            vhost: options.vhost.clone(),
            query: AMQPQueryString {
                heartbeat: Some(u16::try_from(options.heartbeat.as_secs().max(1)).unwrap_or(u16::MAX)),
                connection_timeout: Some(
                    u64::try_from(options.patience.as_millis()).unwrap_or(u64::MAX).max(1000),
                ),
                ..AMQPQueryString::default()
            },
        };
        let connection = dial(options, &uri, &options.name).await?;
        let publishing = dial(options, &uri, &format!("{} (publishing)", options.name)).await?;
        Ok(Self {
            number,
            connection,
            publishing,
            confirm_timeout: options.confirm_timeout,
            spare: Mutex::default(),
            publishers: Mutex::default(),
            turns: Semaphore::new(PUBLISHERS),
            condemned: Notify::new(),
        })
    }

    /// Returns when the connection is lost, with what is known of the reason.
    pub(crate) async fn lost(&self) -> String {
        let both =
            futures::stream::select(self.connection.events_listener(), self.publishing.events_listener());
        let mut events = Box::pin(both);
        let mut reason = "the connection was closed".to_owned();
        loop {
            if !self.is_connected() {
                return reason;
            }
            tokio::select! {
                event = events.next() => match event {
                    Some(lapin::Event::Error(error)) => reason = error.to_string(),
                    Some(lapin::Event::ConnectionBlocked(why)) => {
                        tracing::warn!(why, "RabbitMQ takes no publishes for now");
                    }
                    Some(_) => {}
                    None => tokio::time::sleep(LOOK).await,
                },
                () = self.condemned.notified() => return "the server did not answer".to_owned(),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.status().connected() && self.publishing.status().connected()
    }

    /// Has the connection made anew although it looks alive.
    pub(crate) fn condemn(&self) {
        self.condemned.notify_one();
    }

    /// Says goodbye, but not for ever.
    pub(crate) async fn close(&self) {
        for connection in [&self.connection, &self.publishing] {
            let goodbye = connection.close(200, short("closed"));
            let _ = tokio::time::timeout(Duration::from_secs(5), goodbye).await;
        }
    }

    /// A new channel of one's own.
    pub(crate) async fn channel(&self) -> Result<Channel, LinkError> {
        within(self.confirm_timeout, "open a channel", self.connection.create_channel()).await
    }

    /// Asks the server something on a channel for administration. A refusal closes that channel, and the next question
    /// gets another.
    pub(crate) async fn ask<T>(
        &self,
        what: &'static str,
        question: impl AsyncFnOnce(&Channel) -> lapin::Result<T>,
    ) -> Result<T, LinkError> {
        let spare = lock(&self.spare).pop().filter(|channel| channel.status().connected());
        let channel = match spare {
            Some(channel) => channel,
            None => self.channel().await?,
        };
        let answer = within(self.confirm_timeout, what, question(&channel)).await;
        if answer.is_ok() {
            lock(&self.spare).push(channel);
        }
        if matches!(answer, Err(LinkError::Silent { .. })) {
            self.condemn();
        }
        answer
    }

    /// Publishes the parcels in their order, mandatory and confirmed, and says what became of each.
    pub(crate) async fn publish(&self, parcels: &[Parcel]) -> Vec<Fate> {
        let mut fates = Vec::with_capacity(parcels.len());
        let mut rest = parcels;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |parcel: &&Parcel| {
                bytes += parcel.body.len();
                bytes <= PIPELINED_BYTES
            };
            let count = rest.iter().take(PIPELINED).take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            fates.extend(self.publish_some(now).await);
            rest = later;
        }
        fates
    }

    async fn publish_some(&self, parcels: &[Parcel]) -> Vec<Fate> {
        let Ok(_turn) = self.turns.acquire().await else {
            return vec![Fate::Unsent("the connection is closed".into()); parcels.len()];
        };
        let channel = match self.publisher().await {
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
            if !self.publishing.status().blocked() {
                self.condemn();
            }
            return vec![Fate::Unknown(format!("no confirm within {limit:?}")); parcels.len()];
        };
        let mut returned = Returned::default();
        let mut sound = true;
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
                    Fate::Unknown(error.to_string())
                }
            })
            .collect();
        for (parcel, fate) in parcels.iter().zip(&mut fates) {
            if *fate == Fate::Confirmed && returned.take(parcel) {
                *fate = Fate::Unroutable;
            }
        }
        if sound {
            lock(&self.publishers).push(channel);
        }
        fates
    }

    async fn publisher(&self) -> Result<Channel, LinkError> {
        let free = lock(&self.publishers).pop().filter(|channel| channel.status().connected());
        if let Some(channel) = free {
            return Ok(channel);
        }
        let create = self.publishing.create_channel();
        let channel = within(self.confirm_timeout, "open a channel", create).await?;
        let select = channel.confirm_select(ConfirmSelectOptions::default());
        within(self.confirm_timeout, "confirm.select", select).await?;
        Ok(channel)
    }
}

/// Makes one connection. With an error comes whether trying again is in vain.
async fn dial(options: &Options, uri: &AMQPUri, name: &str) -> Result<Connection, (ConnectError, bool)> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    // The time-out in the address is for the dial alone; a server that accepts and then says nothing is as bad.
    let limit = options.patience.max(Duration::from_secs(1)) * 2;
    let connected = tokio::time::timeout(limit, Connection::connect_uri(uri.clone(), properties)).await;
    let server = options.server();
    match connected {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) if not_allowed(&error) => {
            Err((ConnectError::NotAllowed { server, problem: error.to_string() }, true))
        }
        Ok(Err(error)) => Err((ConnectError::Unreachable { server, problem: error.to_string() }, false)),
        Err(_) => {
            let problem = format!("it did not answer within {limit:?}");
            Err((ConnectError::Unreachable { server, problem }, false))
        }
    }
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
