//! Marks of what runs with nothing beside it: a queue of that name exists from [`Engine::alone`] until the
//! delivery is settled.
//!
//! A mark is for one copy of a message, and whatever becomes of a message is written as another copy. So one
//! that is left behind, by a process that was killed just after it settled, is no mark of anything any more;
//! the server deletes it after [`KEPT_FOR`]. A queue, and not a message in one: it is there for all who look
//! at the same time, it is found by its name, and none of it has to be gone through. There are few, since a
//! process runs no two messages alone.

use crate::{
    engine::Engine, held::Entry, intake::Arrived, names, publisher::Fate, wire::Parcel, wire::short,
};
use bytes::Bytes;
use crawlway_broker::{QueueName, Receipt, SettleError, Timestamp};
use lapin::{
    BasicProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use std::{sync::Arc, time::Duration};

/// How long a mark is kept that no worker removes.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long is waited for a mark to be taken away.
const PATIENCE: Duration = Duration::from_secs(1);
/// Before it is tried again to take a mark away.
const PAUSE: Duration = Duration::from_millis(200);

impl Engine {
    pub(crate) async fn alone(self: Arc<Self>, receipt: Receipt) -> Result<(), SettleError> {
        self.open()?;
        self.take_back_expired();
        let fenced = || SettleError::Fenced { queue: receipt.queue.clone() };
        // Noted first: whoever settles it from now on takes the mark away.
        let mark = self.held().set_alone(&receipt, Timestamp::now()).ok_or_else(fenced)?;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        let kept_for = i64::try_from(KEPT_FOR.as_millis()).unwrap_or(i64::MAX);
        arguments.insert(short("x-expires"), AMQPValue::LongLongInt(kept_for));
        let session = self.session().await?;
        let declared = session.ask("queue.declare", async |channel| {
            channel.queue_declare(short(&mark), options, arguments).await
        });
        declared.await?;
        // Settled or lost meanwhile, and its mark may have been taken away before it was there.
        if !self.held().is_held(&receipt, Timestamp::now()) {
            self.unmark(mark).await;
            return Err(fenced());
        }
        Ok(())
    }

    /// Whether a process had this copy of a message, ran nothing else, and has not settled it; none if the
    /// server does not say. Sends a probe that no queue takes, which the server says: to ask for a queue that
    /// is not there would cost a channel.
    pub(crate) async fn is_marked(&self, queue: &QueueName, arrived: &Arrived) -> Option<bool> {
        let session = self.session().await.ok()?;
        let gone_at_once = BasicProperties::default().with_expiration(short("0"));
        let mark = names::mark(queue, &arrived.carried.copy_id());
        match session.publish(vec![Parcel::to_queue(mark, gone_at_once, Bytes::new())]).await.remove(0) {
            Fate::Confirmed | Fate::Rejected => Some(true),
            Fate::Unroutable => Some(false),
            Fate::TooLarge(_) | Fate::Unknown(_) | Fate::Unsent(_) => None,
        }
    }

    /// Takes a mark away, should the delivery have one, without waiting for it.
    pub(crate) fn unmark_soon(self: &Arc<Self>, entry: &Entry) {
        if entry.alone {
            self.runtime.spawn(self.clone().take_away(entry.mark()));
        }
    }

    /// Takes a mark away. Returns when it is gone, or soon.
    pub(crate) async fn unmark(self: &Arc<Self>, mark: String) {
        let gone = self.runtime.spawn(self.clone().take_away(mark));
        let _ = tokio::time::timeout(PATIENCE, gone).await;
    }

    /// However long it takes, until the broker is closed.
    async fn take_away(self: Arc<Self>, mark: String) {
        while let Ok(session) = self.link.session(Duration::MAX).await {
            // One that is not there is deleted, too.
            let deleted = session.ask("queue.delete", async |channel| {
                channel.queue_delete(short(&mark), QueueDeleteOptions::default()).await
            });
            match deleted.await {
                Ok(_) => return,
                Err(error) if error.refusal().is_some() => {
                    return tracing::warn!(mark, %error, "a mark could not be taken away; the server does so in time");
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
