//! Our connections to the server from their start until one is lost: channels for administration, and channels that
//! publish with confirms.
//!
//! There are two, since a server that is short of memory or disk stops reading from connections that publish: on the
//! other one, what was taken can still be acknowledged, which is what makes room.

use crate::{
    error::{ConnectError, LinkError, not_allowed},
    lane::Lane,
    legible,
    options::Options,
    publisher::{Fate, Publisher},
    wire::{Parcel, short},
};
use futures::StreamExt as _;
use lapin::{
    Channel, Connection, ConnectionProperties,
    uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo},
};
use parking_lot::Mutex;
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::sync::Notify;

/// How often a connection is looked at, should it not tell that it has ended.
const LOOK: Duration = Duration::from_millis(500);

/// How often is looked whether publishes are taken again.
const BLOCKED_LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Session {
    pub(crate) number: u64,
    connection: Connection,
    publishing: Arc<Connection>,
    confirm_timeout: Duration,
    /// Channels for administration that are free now.
    spare: Mutex<Vec<Channel>>,
    publisher: Arc<Publisher>,
    /// Tells the supervisor not to wait for the heartbeat.
    condemned: Arc<Notify>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("number", &self.number).finish_non_exhaustive()
    }
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
        let (publishing, condemned) = (Arc::new(publishing), Arc::new(Notify::new()));
        let limit = options.confirm_timeout;
        Ok(Self {
            number,
            connection,
            publisher: Arc::new(Publisher::new(publishing.clone(), limit, condemned.clone())),
            publishing,
            confirm_timeout: limit,
            spare: Mutex::default(),
            condemned,
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
        for connection in [&self.connection, &*self.publishing] {
            let goodbye = connection.close(200, short("closed"));
            let _ = tokio::time::timeout(Duration::from_secs(5), goodbye).await;
        }
    }

    /// A new channel of one's own.
    async fn channel(&self) -> Result<Channel, LinkError> {
        within(self.confirm_timeout, "open a channel", self.connection.create_channel()).await
    }

    /// A new channel that deliveries come on.
    pub(crate) async fn lane(&self) -> Result<Lane, LinkError> {
        let channel = self.channel().await?;
        Ok(Lane::new(channel, self.number, self.confirm_timeout, self.condemned.clone()))
    }

    /// Asks the server something on a channel for administration. A refusal closes that channel, and the next question
    /// gets another.
    pub(crate) async fn ask<T>(
        &self,
        what: &'static str,
        question: impl AsyncFnOnce(&Channel) -> lapin::Result<T>,
    ) -> Result<T, LinkError> {
        let spare = self.spare.lock().pop().filter(|channel| channel.status().connected());
        let channel = match spare {
            Some(channel) => channel,
            None => self.channel().await?,
        };
        let answer = within(self.confirm_timeout, what, question(&channel)).await;
        if answer.is_ok() {
            self.spare.lock().push(channel);
        }
        if matches!(answer, Err(LinkError::Silent { .. })) {
            self.condemn();
        }
        answer
    }

    /// Publishes the parcels in their order, mandatory and confirmed, and says what became of each. While the server is short
    /// of memory or disk, nothing is sent, which is said at once.
    pub(crate) async fn publish(&self, parcels: Vec<Parcel>) -> Vec<Fate> {
        self.publisher.publish(parcels).await
    }

    /// The same, but waits for so long until the server is no longer short of anything.
    pub(crate) async fn publish_patiently(&self, parcels: Vec<Parcel>, patience: Duration) -> Vec<Fate> {
        let unblocked = async {
            while self.publishing.status().blocked() && self.is_connected() {
                tokio::time::sleep(BLOCKED_LOOK).await;
            }
        };
        // Should it last longer, the answer says so.
        let _ = tokio::time::timeout(patience, unblocked).await;
        self.publish(parcels).await
    }
}

/// Makes one connection. With an error comes whether trying again is in vain.
async fn dial(options: &Options, uri: &AMQPUri, name: &str) -> Result<Connection, (ConnectError, bool)> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    // The time-out in the address is for the dial alone; a server that accepts and then says nothing is as bad.
    let limit = options.patience.max(Duration::from_secs(1)) * 2;
    let connected = tokio::time::timeout(limit, legible::connect(uri.clone(), properties)).await;
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
