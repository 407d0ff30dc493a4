//! Receiving: waits for ready records, notes them in the ledger and leases them to the caller.

use crate::{engine::Engine, error::Failure};
use crawlway_broker::{BrokerError, Delivery, QueueName, Timestamp};
use crawlway_broker_ledger::Backend as _;
use std::{sync::Arc, time::Duration};

/// Minimum wait: a shorter one would end before the server could answer.
const MIN_WAIT: Duration = Duration::from_millis(25);

impl Engine {
    /// Cancel-safe: records that are not returned go back to the ready ones.
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
        let consumer = self.start_consumer(&local)?;
        let deadline = tokio::time::sleep(wait.max(MIN_WAIT));
        tokio::pin!(deadline);
        loop {
            let changed = local.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            self.check_open()?;
            let now = Timestamp::now();
            let (entries, next) = {
                let mut state = local.state();
                state.advance(now);
                let entries = state.candidates(max);
                let next = if entries.is_empty() { state.next_time() } else { None };
                (entries, next)
            };
            if !entries.is_empty() {
                let deliveries = self.take(&local, entries, max).await?;
                consumer.update(&local);
                if !deliveries.is_empty() {
                    return Ok(deliveries);
                }
                continue;
            }
            // A lease may end or a record become due before.
            let sleep =
                next.map_or(Duration::from_secs(1), |time| time.since(now)).max(Duration::from_millis(1));
            tokio::select! {
                () = &mut changed => {}
                () = tokio::time::sleep(sleep) => {}
                () = &mut deadline => {
                    // An empty result would hide that no message could have come.
                    self.check_reachable()?;
                    return Ok(Vec::new());
                }
            }
        }
    }

    pub(crate) fn check_reachable(&self) -> Result<(), Failure> {
        self.check_open()?;
        if self.connection.health.is_down() {
            return Err(Failure::Unavailable(self.connection.unreachable()));
        }
        Ok(())
    }
}
