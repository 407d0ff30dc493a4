//! Receiving: waits for messages in the prefetch buffer and leases them to the caller.

use crate::engine::{Engine, unusable};
use crawlway_broker::{BrokerError, Delivery, QueueName, Timestamp};
use std::{sync::Arc, time::Duration};

/// Minimum wait: a shorter one would end before the server could answer.
const MIN_WAIT: Duration = Duration::from_millis(25);

impl Engine {
    /// Cancel-safe: after the last `await` a message is leased and returned without interruption.
    pub(crate) async fn receive(
        self: &Arc<Self>,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        let local = self.local_queue(queue)?;
        if max == 0 {
            return Ok(Vec::new());
        }
        let deadline = tokio::time::sleep(wait.max(MIN_WAIT));
        tokio::pin!(deadline);
        let mut taken = local.take(max);
        let missing = if taken.is_empty() { max } else { 0 };
        let (receiver, start) = local.add_receiver(max, missing);
        if start {
            self.start_consumer(&local);
        }
        while taken.is_empty() {
            let changed = local.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.check_open()?;
            taken = local.take(max);
            if !taken.is_empty() {
                break;
            }
            tokio::select! {
                () = &mut changed => {}
                () = self.connection.closed() => return Err(BrokerError::Closed),
                () = &mut deadline => {
                    // An empty result would hide that no message could have come.
                    self.connection.check_connected()?;
                    return match local.delivery_error() {
                        None => Ok(Vec::new()),
                        Some(reason) => Err(unusable(queue, &reason)),
                    };
                }
            }
        }
        drop(receiver);
        let (now, lease) = (Timestamp::now(), local.lease());
        let mut leases = self.leases();
        let deliveries = taken
            .into_iter()
            .map(|incoming| {
                let (message, history) = (incoming.decoded.message.clone(), incoming.decoded.history.clone());
                let (receipt, lease_until) = leases.insert(incoming, &local, lease, now);
                Delivery {
                    receipt,
                    message,
                    attempt: history.attempt,
                    losses: history.losses,
                    last_error: history.last_error,
                    replays: history.replays,
                    lease_until,
                }
            })
            .collect();
        drop(leases);
        self.leases_changed.notify_one();
        Ok(deliveries)
    }
}
