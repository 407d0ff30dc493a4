//! Administration of queues: depth by the counts of SQS, purge by a mark, pause by the ledger.

use crate::{
    engine::Engine,
    error::Failure,
    local_queue::{Entry, LocalQueue},
};
use aws_sdk_sqs::types::QueueAttributeName as Attribute;
use crawlway_broker::{BrokerError, Depth, QueueName, Timestamp};
use crawlway_broker_ledger::{Entry as _, Settlement};
use std::sync::Arc;

impl Engine {
    pub(crate) async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        let local = self.local_queue(queue)?;
        let dead = self.ledger.count_dead_letters(queue).await?;
        let (visible, hidden) = self.counts(&local).await?;
        let state = local.state();
        let (in_flight, buffered) =
            (state.deliveries.in_flight.len() as u64, state.deliveries.ready.len() as u64);
        Ok(Depth {
            ready: visible + buffered,
            in_flight,
            delayed: hidden.saturating_sub(in_flight + buffered + state.purged_hidden),
            dead,
            oldest_age: None,
            rates: None,
            exact: false,
            paused: state.deliveries.is_paused,
        })
    }

    pub(crate) async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let local = self.local_queue(queue)?;
        let (visible, hidden) = self.counts(&local).await?;
        let state = local.state();
        Ok((visible + hidden).saturating_sub(state.deliveries.in_flight.len() as u64 + state.purged_hidden))
    }

    /// Numbers of visible and of hidden messages.
    async fn counts(&self, local: &LocalQueue) -> Result<(u64, u64), Failure> {
        let (visible, hidden) =
            (Attribute::ApproximateNumberOfMessages, Attribute::ApproximateNumberOfMessagesNotVisible);
        let call = self.connection.client().await.get_queue_attributes().queue_url(&local.url);
        let call = call.attribute_names(visible.clone()).attribute_names(hidden.clone());
        let attributes = self.connection.note(call.send().await)?.attributes.unwrap_or_default();
        let number = |name| attributes.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        Ok((number(&visible), number(&hidden)))
    }

    /// Marks what is there as purged: polls delete what was sent before. What is visible is deleted now; what is hidden when it comes back.
    pub(crate) async fn purge(self: &Arc<Self>, queue: &QueueName) -> Result<u64, BrokerError> {
        let local = self.local_queue(queue)?;
        self.check_reachable()?;
        let before = self.pending(queue).await?;
        let buffered: Vec<Entry> = {
            let mut state = local.state();
            state.purged_before = Timestamp::now();
            state.kept = state
                .deliveries
                .in_flight
                .values()
                .map(|held| held.entry.received.message_id.clone())
                .collect();
            state.deliveries.ready.drain(..).collect()
        };
        let handles: Vec<String> = buffered.iter().map(|entry| entry.received.handle.clone()).collect();
        self.connection.delete(&local.url, &handles).await;
        let taken = buffered.iter().filter(|entry| entry.is_taken).map(|entry| entry.key(queue));
        self.ledger.settle(taken.collect(), &Settlement::Done).await;
        while self.counts(&local).await?.0 > 0 {
            let now = Timestamp::now();
            let received = self.connection.poll(&local.url, crate::connection::BATCH).await?;
            if received.is_empty() {
                break;
            }
            // What was purged is deleted.
            self.accept(&local, received, now).await;
        }
        let (_, hidden) = self.counts(&local).await?;
        {
            let mut state = local.state();
            state.purged_hidden = hidden
                .saturating_sub((state.deliveries.in_flight.len() + state.deliveries.ready.len()) as u64);
        }
        local.wake();
        Ok(before)
    }
}
