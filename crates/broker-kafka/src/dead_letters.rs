//! Dead letters: kept in the ledger, with a copy in `NAME.dead` for other programs.

use crate::{
    engine::{Engine, message_key},
    error::Failure,
    local_queue::LocalQueue,
    settle::{Claim, Death},
    wire::{self, DeadCopy, Record},
};
use crawlway_broker::{
    BrokerError, Bytes, DeadLetter, DeadLetterCause, DeadLetterFilter, DeadLetterId, DeadLetterPage, Message,
    MessageId, PublishError, QueueName, ReplayOutcome, SettleError, history::History,
};
use crawlway_store::ledger::{self, AddDeadLetterOutcome, DeadLetterDetail, NewDeadLetter};
use std::{sync::Arc, time::Duration};

/// Number of letters that a replay or a drop handles at a time.
const BATCH: usize = 100;
/// Delay before a dead-lettering without a verdict is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Engine {
    /// Makes a delivery a dead letter: in the ledger, then as a copy in the topic. Its offset is settled by the caller.
    pub(crate) async fn bury(
        &self,
        claim: &Claim,
        history: &History,
        death: &Death,
    ) -> Result<(), SettleError> {
        if death.is_closed {
            return Ok(());
        }
        let (local, record) = (&claim.local, &*claim.delivery.entry.record);
        let letter = NewDeadLetter {
            message: message_key(&local.queue, record),
            detail: detail(&record.message, history, death),
            body: record.message.body.to_vec(),
        };
        let session = self.session.get().await?;
        let outcomes = self.ledger.add_dead_letters(&session, &[letter]).await.map_err(Failure::from)?;
        match outcomes.first() {
            Some(AddDeadLetterOutcome::Dead(_)) => self.copy_dead(local, record, history, death).await,
            Some(AddDeadLetterOutcome::Closed) => Ok(()),
            Some(AddDeadLetterOutcome::Fenced) | None => {
                Err(SettleError::Fenced { queue: local.queue.clone() })
            }
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
    pub(crate) async fn bury_later(&self, local: &Arc<LocalQueue>, tag: u64, death: Death) {
        loop {
            let Some(delivery) = local.state().in_flight.get(&tag).cloned() else { return };
            let history = delivery.history.clone();
            let claim = Claim { local: local.clone(), tag, delivery };
            match self.bury(&claim, &history, &death).await {
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
        let empty = DeadLetterPage { letters: Vec::new(), next: None };
        let after = match after.map(|id| id.0.parse().map(ledger::DeadLetterId)) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => return Ok(empty),
        };
        let Some(filter) = ledger_filter(filter) else { return Ok(empty) };
        let page =
            self.ledger.dead_letters(queue.as_str(), &filter, after, limit).await.map_err(Failure::from)?;
        let next = page.next.map(|id| DeadLetterId(id.to_string()));
        let letters = self.read(queue, page.letters).await?;
        Ok(DeadLetterPage { letters: letters.into_iter().map(|(_, letter)| letter).collect(), next })
    }

    /// Letters with their bodies. One that was closed meanwhile is missing.
    async fn read(
        &self,
        queue: &QueueName,
        letters: Vec<ledger::DeadLetter>,
    ) -> Result<Vec<(ledger::DeadLetterId, DeadLetter)>, Failure> {
        let ids: Vec<ledger::DeadLetterId> = letters.iter().map(|letter| letter.id).collect();
        let bodies = self.ledger.bodies(&ids).await?;
        let whole = |(letter, body): (ledger::DeadLetter, Option<Vec<u8>>)| {
            Some((letter.id, dead_letter(queue, letter, body?)))
        };
        Ok(letters.into_iter().zip(bodies).filter_map(whole).collect())
    }

    pub(crate) async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        let local = self.local_queue(queue)?;
        let mut outcome = ReplayOutcome::default();
        let Some(filter) = ledger_filter(filter) else { return Ok(outcome) };
        let mut after = None;
        loop {
            let page = self
                .ledger
                .dead_letters(queue.as_str(), &filter, after, BATCH)
                .await
                .map_err(Failure::from)?;
            let letters = self.read(queue, page.letters).await?;
            let ids: Vec<ledger::DeadLetterId> = letters.iter().map(|(id, _)| *id).collect();
            let begun = self.ledger.begin_replay(&ids).await.map_err(Failure::from)?;
            let (mut replays, mut copies) = (Vec::new(), Vec::new());
            for ((_, letter), begun) in letters.into_iter().zip(begun) {
                if let ledger::ReplayOutcome::Begun(replay) = begun {
                    let count = letter.replays.saturating_add(1);
                    copies.push(wire::encode_replay(
                        &letter.message,
                        count,
                        replay.epoch,
                        local.names.main.clone(),
                    ));
                    replays.push(replay);
                }
            }
            let results = self.connection.publish(&copies).await;
            let published: Vec<ledger::Replay> = replays
                .iter()
                .zip(&results)
                .filter(|(_, result)| result.is_ok())
                .map(|(replay, _)| *replay)
                .collect();
            self.ledger.end_replay(&published).await.map_err(Failure::from)?;
            outcome.count += published.len() as u64;
            if let Some(error) = results.into_iter().find_map(Result::err) {
                outcome.stopped = Some(error);
                return Ok(outcome);
            }
            after = page.next;
            if after.is_none() {
                return Ok(outcome);
            }
        }
    }

    pub(crate) async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        self.local_queue(queue)?;
        let Some(filter) = ledger_filter(filter) else { return Ok(0) };
        let (mut count, mut after) = (0, None);
        loop {
            let page = self
                .ledger
                .dead_letters(queue.as_str(), &filter, after, BATCH)
                .await
                .map_err(Failure::from)?;
            let ids: Vec<ledger::DeadLetterId> = page.letters.iter().map(|letter| letter.id).collect();
            let dropped = self.ledger.drop_dead_letters(&ids).await.map_err(Failure::from)?;
            count += dropped.iter().filter(|dropped| **dropped).count() as u64;
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }
}

fn detail(message: &Message, history: &History, death: &Death) -> DeadLetterDetail {
    let failure = |failure: &Option<crawlway_broker::Failure>| {
        failure.clone().map(|failure| ledger::Failure { error: failure.error, at: failure.at })
    };
    DeadLetterDetail {
        item: message.id.to_string(),
        partition_key: message.key.clone(),
        group: message.group.clone(),
        headers: message.headers.clone(),
        published_at: message.published_at,
        cause: death.cause.as_str().to_owned(),
        reason: death.reason.clone(),
        attempts: history.attempt,
        first_error: failure(&history.first_error),
        last_error: failure(&history.last_error),
        replays: history.replays,
    }
}

fn dead_letter(queue: &QueueName, letter: ledger::DeadLetter, body: Vec<u8>) -> DeadLetter {
    let failure = |failure: Option<ledger::Failure>| {
        failure.map(|failure| crawlway_broker::Failure { error: failure.error, at: failure.at })
    };
    let detail = letter.detail;
    DeadLetter {
        id: DeadLetterId(letter.id.to_string()),
        queue: queue.clone(),
        message: Message {
            id: MessageId::from(detail.item.as_str()),
            key: detail.partition_key,
            group: detail.group,
            headers: detail.headers,
            body: Bytes::from(body),
            published_at: detail.published_at,
            defects: Vec::new(),
        },
        cause: DeadLetterCause::from_name(&detail.cause).unwrap_or(DeadLetterCause::Refused),
        reason: detail.reason,
        attempts: detail.attempts,
        first_error: failure(detail.first_error),
        last_error: failure(detail.last_error),
        dead_at: letter.dead_at,
        replays: detail.replays,
    }
}

/// The same filter for the ledger; `None` if it matches nothing.
fn ledger_filter(filter: &DeadLetterFilter) -> Option<ledger::DeadLetterFilter> {
    let wanted: Vec<&DeadLetterId> = match &filter.id {
        Some(id) if filter.ids.is_empty() || filter.ids.contains(id) => vec![id],
        Some(_) => return None,
        None => filter.ids.iter().collect(),
    };
    let ids: std::collections::BTreeSet<ledger::DeadLetterId> =
        wanted.iter().filter_map(|id| id.0.parse().ok().map(ledger::DeadLetterId)).collect();
    // Ids of another broker match nothing, and no ids match all.
    if ids.is_empty() && !wanted.is_empty() {
        return None;
    }
    Some(ledger::DeadLetterFilter {
        ids,
        item: filter.message_id.clone(),
        cause: filter.cause.map(|cause| cause.as_str().to_owned()),
        reason: filter.reason.clone(),
        error: filter.error.clone(),
        since: filter.since,
        until: filter.until,
    })
}
