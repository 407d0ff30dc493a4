//! Dead letters: kept in the ledger, with a copy in `NAME-dead.fifo` for other programs.

use crate::{
    engine::Engine,
    error::Failure,
    local_queue::LocalQueue,
    names::digest,
    settle::Claim,
    wire::{self, Place},
};
use crawlway_broker::{
    BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, Death, QueueName, ReplayOutcome,
    SettleError, history::History,
};
use crawlway_broker_ledger::ReplayCopy;
use std::{sync::Arc, time::Duration};

/// Delay before a dead-lettering without a verdict is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Engine {
    /// Makes a delivery a dead letter: in the ledger, then as a copy in the dead queue. The caller deletes it. Nothing is left to do
    /// without a death: the letter was replayed or dropped.
    pub(crate) async fn bury(
        &self,
        claim: &Claim,
        history: &History,
        death: Option<&Death>,
    ) -> Result<(), SettleError> {
        let Some(death) = death else { return Ok(()) };
        let (local, entry) = (&claim.local, &claim.delivery.entry);
        let (key, message) = (entry.key(&local.queue), &entry.received.message);
        if !self.ledger.bury(&local.queue, key, message, history, death).await? {
            return Ok(());
        }
        let url = self.dead_url(local).await?;
        // Not a nonce: after a crash the repeat is no duplicate for five minutes. A group of its own, since one reader that is stuck would
        // hold up the others.
        let nonce = digest(&format!("{} {}", entry.received.message_id, history.replays));
        let place = Place { group: nonce.clone(), nonce };
        let copy = wire::encode_copy(message, history, None, Some(death), place);
        if copy.size() > self.connection.options.max_size {
            tracing::warn!(queue = %local.queue, "a dead letter is too large for a copy for other programs");
            return Ok(());
        }
        let sent = self.connection.send(url, &[copy]).await.remove(0);
        sent.map_err(|error| SettleError::Unavailable { detail: error.to_string() })
    }

    /// Makes a delivery without a verdict a dead letter, however long it takes.
    pub(crate) async fn bury_later(
        self: &Arc<Self>,
        local: &Arc<LocalQueue>,
        tag: u64,
        death: Option<Death>,
    ) {
        loop {
            let Some(delivery) = local.state().in_flight.get(&tag).cloned() else { return };
            let history = delivery.history.clone();
            let claim = Claim { local: local.clone(), tag, delivery };
            let buried = self.bury(&claim, &history, death.as_ref()).await;
            let error = match buried {
                Ok(()) => match self.finish(vec![(0, claim)]).await.pop() {
                    None => return,
                    Some((_, error)) => error,
                },
                Err(error) => error,
            };
            if !matches!(error, SettleError::Unavailable { .. }) || self.is_closed() {
                local.state().in_flight.remove(&tag);
                return;
            }
            if let Some(held) = local.state().in_flight.get_mut(&tag) {
                held.settling = true;
            }
            tracing::warn!(queue = %local.queue, %error, "a dead letter cannot be stored; trying again");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// URL of the dead queue, which is created once.
    async fn dead_url<'l>(&self, local: &'l LocalQueue) -> Result<&'l str, Failure> {
        let create = || async { self.create_queue(&local.names.dead, local.queue.as_str(), "dead").await };
        Ok(local.dead_url.get_or_try_init(create).await?)
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
                let history = History { replays: copy.replays, ..History::default() };
                let nonce = digest(&format!("{queue} {} {}", copy.letter, copy.epoch));
                let place = Self::copy_place(&local, copy.message.group.as_ref(), nonce);
                wire::encode_copy(&copy.message, &history, Some(copy.epoch), None, place)
            };
            let (copies, local): (Vec<_>, _) = (copies.iter().map(encode).collect(), local.clone());
            async move { self.connection.send(&local.url, &copies).await }
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
