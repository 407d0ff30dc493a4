//! Solo markers: a queue that exists while a worker runs one message and nothing else.
//!
//! A marker belongs to one copy of a message, and every verdict but `Done` writes another copy. So a marker that a killed
//! process left behind matches nothing, and the server deletes it after [`MARKER_TTL`]. It is a queue rather than a
//! message, because all processes see it at once and find it by its name. There are few: one per process at most.

use crate::{
    engine::Engine,
    leases::LeasedDelivery,
    local_queue::Incoming,
    names,
    publisher::PublishOutcome,
    wire::{Publication, short},
};
use bytes::Bytes;
use crawlway_broker::{QueueName, Receipt, SettleError, Timestamp};
use lapin::{
    BasicProperties,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use std::{sync::Arc, time::Duration};

/// TTL of a marker that no worker deletes.
const MARKER_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum time that a settle waits for the deletion of its marker.
const DELETE_TIMEOUT: Duration = Duration::from_secs(1);
const DELETE_RETRY_DELAY: Duration = Duration::from_millis(200);

impl Engine {
    pub(crate) async fn mark_solo(self: Arc<Self>, receipt: Receipt) -> Result<(), SettleError> {
        self.check_open()?;
        self.expire_leases();
        let fenced = || SettleError::Fenced { queue: receipt.queue.clone() };
        // Flagged before the marker exists, so that a settle from now on deletes it.
        let marker = self.leases().set_solo(&receipt, Timestamp::now()).ok_or_else(fenced)?;
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        let ttl = i64::try_from(MARKER_TTL.as_millis()).unwrap_or(i64::MAX);
        arguments.insert(short("x-expires"), AMQPValue::LongLongInt(ttl));
        self.session().await?.declare_queue(&marker, options, arguments).await?;
        // A settle meanwhile may have deleted the marker before it was declared.
        if !self.leases().is_leased(&receipt, Timestamp::now()) {
            self.delete_marker(marker).await;
            return Err(fenced());
        }
        Ok(())
    }

    /// Whether this copy of a message has a solo marker; none if the server does not answer. The probe is a message that
    /// expires at once and is returned if the queue does not exist: a passive declare would cost a channel.
    pub(crate) async fn has_solo_marker(&self, queue: &QueueName, incoming: &Incoming) -> Option<bool> {
        let session = self.session().await.ok()?;
        let expired = BasicProperties::default().with_expiration(short("0"));
        let marker = names::solo_marker(queue, &incoming.decoded.copy_id());
        match session.publish_one(Publication::to_queue(marker, expired, Bytes::new())).await {
            PublishOutcome::Confirmed | PublishOutcome::Rejected => Some(true),
            PublishOutcome::Unroutable => Some(false),
            PublishOutcome::TooLarge(_) | PublishOutcome::Unknown(_) | PublishOutcome::Unsent(_) => None,
        }
    }

    /// Deletes the marker of a delivery that has one.
    pub(crate) fn delete_marker_in_background(self: &Arc<Self>, entry: &LeasedDelivery) {
        if entry.solo {
            self.runtime.spawn(self.clone().retry_delete_marker(entry.solo_marker()));
        }
    }

    /// Deletes a marker and waits for at most [`DELETE_TIMEOUT`].
    pub(crate) async fn delete_marker(self: &Arc<Self>, marker: String) {
        let deleted = self.runtime.spawn(self.clone().retry_delete_marker(marker));
        let _ = tokio::time::timeout(DELETE_TIMEOUT, deleted).await;
    }

    /// Deletes a marker, with any number of attempts until the broker is closed.
    async fn retry_delete_marker(self: Arc<Self>, marker: String) {
        while let Ok(session) = self.connection.session(Duration::MAX).await {
            match session.delete_queue(&marker).await {
                Ok(()) => return,
                Err(error) if error.refusal().is_some() => {
                    return tracing::warn!(marker, %error, "solo marker could not be deleted; it expires after 7 days");
                }
                Err(_) => tokio::time::sleep(DELETE_RETRY_DELAY).await,
            }
        }
    }
}
