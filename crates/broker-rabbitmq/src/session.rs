//! Session: two AMQP connections to the server, with their channels, from connecting until one of them is lost.
//!
//! A server that is short of memory or disk stops reading from connections that publish. So publishing has a connection of its
//! own, and acknowledgements, which free memory, still get through on the other one.

use crate::{
    ack_channel::AckChannel,
    error::{ConnectError, SessionError, is_login_refused},
    options::Options,
    publisher::{PublishOutcome, Publisher},
    sanitize::{self, DialError},
    wire::{Publication, short},
};
use futures::StreamExt as _;
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions, QueuePurgeOptions},
    types::FieldTable,
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

/// Interval of the check for a lost connection, should its event be missed.
const LOST_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of the check whether a blocked connection may publish again.
const BLOCKED_CHECK_INTERVAL: Duration = Duration::from_millis(50);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Session {
    pub(crate) number: u64,
    connection: Connection,
    publishing: Arc<Connection>,
    confirm_timeout: Duration,
    /// Idle channels for requests.
    idle_channels: Mutex<Vec<Channel>>,
    publisher: Arc<Publisher>,
    /// Tells the supervisor to reconnect without waiting for the heartbeat timeout.
    unresponsive: Arc<Notify>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Awaits an answer of the server for at most the timeout.
pub(crate) async fn with_timeout<T>(
    timeout: Duration,
    method: &'static str,
    answer: impl Future<Output = lapin::Result<T>>,
) -> Result<T, SessionError> {
    match tokio::time::timeout(timeout, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(SessionError::Timeout { method, after: timeout }),
    }
}

/// Polls all futures once in their order, and then awaits each: one round trip for all requests.
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
    /// Connects once. The flag of an error is set if another attempt is useless.
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
                    u64::try_from(options.connection_timeout.as_millis()).unwrap_or(u64::MAX).max(1000),
                ),
                ..AMQPQueryString::default()
            },
        };
        let connection = dial(options, &uri, &options.connection_name).await?;
        let publishing = dial(options, &uri, &format!("{} (publishing)", options.connection_name)).await?;
        let (publishing, unresponsive) = (Arc::new(publishing), Arc::new(Notify::new()));
        let confirm_timeout = options.confirm_timeout;
        Ok(Self {
            number,
            connection,
            publisher: Arc::new(Publisher::new(publishing.clone(), confirm_timeout, unresponsive.clone())),
            publishing,
            confirm_timeout,
            idle_channels: Mutex::default(),
            unresponsive,
        })
    }

    /// Waits until a connection is lost; returns the reason.
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
                        tracing::warn!(reason = why, "RabbitMQ blocks publishing: short of memory or disk");
                    }
                    Some(_) => {}
                    None => tokio::time::sleep(LOST_CHECK_INTERVAL).await,
                },
                () = self.unresponsive.notified() => return "the server did not answer".to_owned(),
                () = tokio::time::sleep(LOST_CHECK_INTERVAL) => {}
            }
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.status().connected() && self.publishing.status().connected()
    }

    /// Makes the supervisor reconnect although the connection looks alive.
    pub(crate) fn mark_unresponsive(&self) {
        self.unresponsive.notify_one();
    }

    pub(crate) async fn close(&self) {
        for connection in [&self.connection, &*self.publishing] {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, connection.close(200, short("closed"))).await;
        }
    }

    async fn open_channel(&self) -> Result<Channel, SessionError> {
        with_timeout(self.confirm_timeout, "channel.open", self.connection.create_channel()).await
    }

    pub(crate) async fn open_ack_channel(&self) -> Result<AckChannel, SessionError> {
        let channel = self.open_channel().await?;
        Ok(AckChannel::new(channel, self.number, self.confirm_timeout, self.unresponsive.clone()))
    }

    /// Sends a request on an idle channel. A refusal closes the channel, and the next request opens another one.
    pub(crate) async fn call<T>(
        &self,
        method: &'static str,
        request: impl AsyncFnOnce(&Channel) -> lapin::Result<T>,
    ) -> Result<T, SessionError> {
        let idle = self.idle_channels.lock().pop().filter(|channel| channel.status().connected());
        let channel = match idle {
            Some(channel) => channel,
            None => self.open_channel().await?,
        };
        let answer = with_timeout(self.confirm_timeout, method, request(&channel)).await;
        if answer.is_ok() {
            self.idle_channels.lock().push(channel);
        }
        if matches!(answer, Err(SessionError::Timeout { .. })) {
            self.mark_unresponsive();
        }
        answer
    }

    pub(crate) async fn declare_queue(
        &self,
        name: &str,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> Result<(), SessionError> {
        let declared = self.call("queue.declare", async |channel| {
            channel.queue_declare(short(name), options, arguments).await
        });
        declared.await.map(drop)
    }

    /// Deletes a queue, if it exists.
    pub(crate) async fn delete_queue(&self, name: &str) -> Result<(), SessionError> {
        let deleted = self.call("queue.delete", async |channel| {
            channel.queue_delete(short(name), QueueDeleteOptions::default()).await
        });
        deleted.await.map(drop)
    }

    /// Drops all ready messages of a queue; returns their number.
    pub(crate) async fn purge_queue(&self, name: &str) -> Result<u64, SessionError> {
        let purged = self.call("queue.purge", async |channel| {
            channel.queue_purge(short(name), QueuePurgeOptions::default()).await
        });
        purged.await.map(u64::from)
    }

    /// Number of ready messages in a queue.
    pub(crate) async fn message_count(&self, queue: &str) -> Result<u64, SessionError> {
        Ok(self.message_counts(&[queue.to_owned()]).await?.into_iter().sum())
    }

    /// Numbers of ready messages in several queues, in one round trip.
    pub(crate) async fn message_counts(&self, queues: &[String]) -> Result<Vec<u64>, SessionError> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = self
            .call("queue.declare", async |channel| {
                let declare =
                    |queue: &String| channel.queue_declare(short(queue), options, FieldTable::default());
                futures::future::try_join_all(queues.iter().map(declare)).await
            })
            .await?;
        Ok(declared.into_iter().map(|queue| queue.message_count().into()).collect())
    }

    /// Publishes in order, mandatory and confirmed; one outcome each. While the server blocks publishing, nothing is sent
    /// and the outcome is [`PublishOutcome::Unsent`].
    pub(crate) async fn publish(&self, publications: Vec<Publication>) -> Vec<PublishOutcome> {
        self.publisher.publish(publications).await
    }

    pub(crate) async fn publish_one(&self, publication: Publication) -> PublishOutcome {
        self.publish(vec![publication]).await.remove(0)
    }

    /// Publishes, after waiting for a blocked server for at most the timeout.
    pub(crate) async fn publish_when_unblocked(
        &self,
        publications: Vec<Publication>,
        timeout: Duration,
    ) -> Vec<PublishOutcome> {
        let unblocked = async {
            while self.publishing.status().blocked() && self.is_connected() {
                tokio::time::sleep(BLOCKED_CHECK_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(timeout, unblocked).await;
        self.publish(publications).await
    }
}

/// Opens one connection. The flag of an error is set if another attempt is useless.
async fn dial(options: &Options, uri: &AMQPUri, name: &str) -> Result<Connection, (ConnectError, bool)> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    // The timeout in the URI covers the TCP connect alone, not a server that accepts and stays silent.
    let timeout = options.connection_timeout.max(Duration::from_secs(1)) * 2;
    let tls = options.amqps.then(|| options.tls.clone());
    let connected = tokio::time::timeout(timeout, sanitize::connect(uri.clone(), properties, tls)).await;
    let server = options.server();
    match connected {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(DialError { error, .. })) if is_login_refused(&error) => {
            Err((ConnectError::LoginRefused { server, reason: error.to_string() }, true))
        }
        Ok(Err(DialError { error, handshake })) => {
            let reason = handshake.unwrap_or_else(|| error.to_string());
            match options.tls.advice(&reason).filter(|_| options.amqps) {
                Some(advice) => {
                    let reason = format!("{reason}; {advice}");
                    Err((ConnectError::Certificate { server, reason }, true))
                }
                None => Err((ConnectError::Unreachable { server, reason }, false)),
            }
        }
        Err(_) => {
            let problem = format!("no answer within {timeout:?}");
            Err((ConnectError::Unreachable { server, reason: problem }, false))
        }
    }
}
