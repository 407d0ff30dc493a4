//! Dead letters: kept in the ledger, with a copy in `NAME.dead` for other programs.

use crate::{
    engine::{Engine, message_key},
    local_queue::LocalQueue,
    settle::Claim,
    wire::{self, DeadCopy, Record},
};
use crawlway_broker::{
    BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, Death, PublishError, QueueName,
    ReplayOutcome, SettleError, history::History,
};
use crawlway_broker_ledger::ReplayCopy;
use std::{sync::Arc, time::Duration};

/// Delay before a dead-lettering without a verdict is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Engine {
    /// Makes a delivery a dead letter: in the ledger, then as a copy in the topic. Its offset is settled by the caller. Nothing is
    /// left to do without a death: the letter was replayed or dropped.
    pub(crate) async fn bury(
        &self,
        claim: &Claim,
        history: &History,
        death: Option<&Death>,
    ) -> Result<(), SettleError> {
        let Some(death) = death else { return Ok(()) };
        let (local, record) = (&claim.local, &*claim.delivery.entry.record);
        let key = message_key(&local.queue, record);
        match self.ledger.bury(&local.queue, key, &record.message, history, death).await? {
            true => self.copy_dead(local, record, history, death).await,
            false => Ok(()),
        }
    }

    async fn copy_dead(
        &self,
        local: &LocalQueue,
        record: &Record,
        history: &History,
        death: &Death,
    ) -> Result<(), SettleError> {
        self.make_dead_topic(local).await?;
        let dead = DeadCopy { cause: death.cause.as_str(), reason: &death.reason };
        let copy = wire::encode_copy(record, history, local.names.dead.clone(), Some(dead));
        match self.connection.publish(&[copy]).await.remove(0) {
            Ok(()) => Ok(()),
            // The ledger has it whole.
            Err(error @ PublishError::TooLarge { .. }) => {
                tracing::warn!(queue = %local.queue, %error, "a dead letter has no copy for other programs");
                Ok(())
            }
            Err(error) => Err(SettleError::Unavailable { detail: error.to_string() }),
        }
    }

    /// Makes a delivery without a verdict a dead letter, however long it takes.
    pub(crate) async fn bury_later(&self, local: &Arc<LocalQueue>, tag: u64, death: Option<Death>) {
        loop {
            let Some(delivery) = local.state().in_flight.get(&tag).cloned() else { return };
            let history = delivery.history.clone();
            let claim = Claim { local: local.clone(), tag, delivery };
            match self.bury(&claim, &history, death.as_ref()).await {
                Ok(()) => {
                    self.finish(vec![(0, claim)]).await;
                    return;
                }
                Err(SettleError::Unavailable { detail }) if !self.is_closed() => {
                    tracing::warn!(queue = %local.queue, detail, "a dead letter cannot be stored; trying again");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(_) => {
                    local.state().in_flight.remove(&tag);
                    return;
                }
            }
        }
    }

    pub(crate) async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        self.local_queue(queue)?;
        self.ledger.dead_letters(queue, filter, after, limit).await
    }

    pub(crate) async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        let local = self.local_queue(queue)?;
        let publish = |copies: Vec<ReplayCopy>| {
            let encode = |copy: &ReplayCopy| {
                wire::encode_replay(&copy.message, copy.replays, copy.epoch, local.names.main.clone())
            };
            let copies: Vec<_> = copies.iter().map(encode).collect();
            async move { self.connection.publish(&copies).await }
        };
        self.ledger.replay(queue, filter, publish).await
    }

    pub(crate) async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        self.local_queue(queue)?;
        self.ledger.drop_dead_letters(queue, filter).await
    }
}
