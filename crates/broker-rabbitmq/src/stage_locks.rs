//! Stage locks: exclusive queues that tell other processes that a stage runs in this one.
//!
//! The server deletes an exclusive queue with its connection, so that a killed process holds no lock. Nothing can be read from
//! the exclusive queue of another connection; the name of the holder is a message in a second queue.

use crate::{
    Options,
    error::{ConnectError, RESOURCE_LOCKED, SessionError},
    session::Session,
    wire::{Publication, short},
};
use bytes::Bytes;
use crawlway_broker::BrokerError;
use lapin::{
    BasicProperties,
    options::{BasicGetOptions, BasicNackOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use std::collections::BTreeSet;
use tokio::sync::Mutex;

/// Exclusive locks of one process, on a connection of their own.
#[derive(Debug)]
pub struct StageLocks {
    options: Options,
    holder: String,
    held: Mutex<Option<Held>>,
}

/// A session with the locks that it holds.
#[derive(Debug)]
struct Held {
    session: Session,
    names: BTreeSet<String>,
}

impl StageLocks {
    /// Locks for this holder, whose name no other process has. Connects with the first lock.
    pub fn new(options: Options, holder: String) -> Self {
        Self { options, holder, held: Mutex::default() }
    }

    /// Takes a lock, or makes sure that it is still held. Returns the name of another holder; empty if it is not known.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn acquire(&self, name: &str) -> Result<Option<String>, BrokerError> {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| !held.session.is_connected()) {
            *held = None;
        }
        let Held { session, names } = match &mut *held {
            Some(held) => held,
            none => none.insert(Held { session: self.connect().await?, names: BTreeSet::new() }),
        };
        if names.contains(name) {
            return Ok(None);
        }
        let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        match session.declare_queue(&lock_queue(name), exclusive, FieldTable::default()).await {
            Ok(()) => {}
            Err(error) if error.refusal().is_some_and(|(code, _)| code == RESOURCE_LOCKED) => {
                let holder = holder(session, name).await.unwrap_or_default();
                // The server may not have noticed yet that an earlier connection of this process is lost.
                return Ok(Some(holder).filter(|holder| *holder != self.holder));
            }
            Err(error) => return Err(error.into()),
        }
        names.insert(name.to_owned());
        declare_holder_queue(session, name).await?;
        let body = Bytes::from(self.holder.clone());
        session
            .publish_one(Publication::to_queue(holder_queue(name), BasicProperties::default(), body))
            .await;
        Ok(None)
    }

    /// Releases all locks.
    pub async fn release(&self) {
        let Some(Held { session, names }) = self.held.lock().await.take() else { return };
        for name in names {
            // Another process may take the lock and declare the queue anew from the next line on.
            let _ = session.delete_queue(&holder_queue(&name)).await;
            let _ = session.delete_queue(&lock_queue(&name)).await;
        }
        session.close().await;
    }

    async fn connect(&self) -> Result<Session, BrokerError> {
        let unavailable =
            |(error, _): (ConnectError, bool)| BrokerError::Unavailable { detail: error.to_string() };
        Session::open(&self.options, 1).await.map_err(unavailable)
    }
}

/// Name of the process that holds a lock, if it is known.
async fn holder(session: &Session, name: &str) -> Option<String> {
    declare_holder_queue(session, name).await.ok()?;
    let queue = holder_queue(name);
    let got = session.call("basic.get", async |channel| {
        let got = channel.basic_get(short(&queue), BasicGetOptions::default()).await?;
        if let Some(message) = &got {
            let requeue = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
            message.delivery.acker.nack(requeue).await?;
        }
        Ok(got)
    });
    let message = got.await.ok()??;
    String::from_utf8(message.delivery.data).ok()
}

/// Declares the queue with the name of the holder, which keeps the latest message alone.
async fn declare_holder_queue(session: &Session, name: &str) -> Result<(), SessionError> {
    let mut arguments = FieldTable::default();
    arguments.insert(short("x-max-length"), AMQPValue::LongLongInt(1));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    session.declare_queue(&holder_queue(name), durable, arguments).await
}

fn lock_queue(name: &str) -> String {
    format!("{name}:lock")
}

fn holder_queue(name: &str) -> String {
    format!("{name}:holder")
}
