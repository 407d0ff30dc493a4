//! Dead letters in the ledger: added, listed, replayed and dropped.

use crate::{Backend, LedgerError, LedgerHandle, Shared};
use crawlway_broker::{
    BrokerError, Bytes, DeadLetter, DeadLetterCause, DeadLetterFilter, DeadLetterId, DeadLetterPage, Death,
    Defect, Failure, Message, MessageId, QueueName, ReplayOutcome, SettleError, history::History,
};
use crawlway_store::ledger::{self, AddDeadLetterOutcome, DeadLetterDetail, MessageKey, NewDeadLetter};

/// Number of letters that a replay or a drop handles at a time.
const BATCH: usize = 100;

/// A dead letter to publish again: its attempts start over.
#[derive(Debug)]
pub struct ReplayCopy {
    /// Number of the letter, for an id of the copy together with the epoch.
    pub letter: u64,
    /// The message.
    pub message: Message,
    /// Number of its replays, with this one.
    pub replays: u32,
    /// Number of this replay of the letter.
    pub epoch: u64,
}

impl LedgerHandle {
    /// Adds a dead letter. `false` if it was one, which was replayed or dropped meanwhile: then it is only settled.
    pub(crate) async fn bury(
        &self,
        queue: &QueueName,
        key: MessageKey,
        message: &Message,
        history: &History,
        death: &Death,
    ) -> Result<bool, SettleError> {
        let detail = detail(message, history, death);
        let letter = NewDeadLetter { message: key, detail, body: message.body.to_vec() };
        let session = self.session().await?;
        let added = self.ledger.add_dead_letters(&session, &[letter]).await.map_err(LedgerError::from)?;
        match added.first() {
            Some(AddDeadLetterOutcome::Dead(_)) => Ok(true),
            Some(AddDeadLetterOutcome::Closed) => Ok(false),
            Some(AddDeadLetterOutcome::Fenced) | None => Err(SettleError::Fenced { queue: queue.clone() }),
        }
    }

    /// Number of dead letters of a queue.
    ///
    /// # Errors
    /// If the ledger is unavailable.
    pub async fn count_dead_letters(&self, queue: &QueueName) -> Result<u64, LedgerError> {
        Ok(self.ledger.count_dead_letters(queue.as_str()).await?)
    }

    async fn page(
        &self,
        queue: &QueueName,
        filter: &ledger::DeadLetterFilter,
        after: Option<ledger::DeadLetterId>,
        limit: usize,
    ) -> Result<ledger::DeadLetterPage, LedgerError> {
        Ok(self.ledger.dead_letters(queue.as_str(), filter, after, limit).await?)
    }

    /// Letters with their bodies. One that was closed meanwhile is missing.
    async fn read(
        &self,
        queue: &QueueName,
        letters: Vec<ledger::DeadLetter>,
    ) -> Result<Vec<(ledger::DeadLetterId, DeadLetter)>, LedgerError> {
        let ids: Vec<ledger::DeadLetterId> = letters.iter().map(|letter| letter.id).collect();
        let bodies = self.ledger.bodies(&ids).await?;
        let whole = |(letter, body): (ledger::DeadLetter, Option<Vec<u8>>)| {
            Some((letter.id, dead_letter(queue, letter, body?)))
        };
        Ok(letters.into_iter().zip(bodies).filter_map(whole).collect())
    }
}

impl<B: Backend> Shared<B> {
    /// Lists dead letters, as the contract says.
    ///
    /// # Errors
    /// If the queue is not declared, or the ledger is unavailable.
    pub async fn dead_letters(
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
        let page = self.ledger.page(queue, &filter, after, limit).await?;
        let next = page.next.map(|id| DeadLetterId(id.to_string()));
        let letters = self.ledger.read(queue, page.letters).await?;
        Ok(DeadLetterPage { letters: letters.into_iter().map(|(_, letter)| letter).collect(), next })
    }

    /// Drops dead letters, as the contract says.
    ///
    /// # Errors
    /// If the queue is not declared, or the ledger is unavailable.
    pub async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        self.local_queue(queue)?;
        let Some(filter) = ledger_filter(filter) else { return Ok(0) };
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.ledger.page(queue, &filter, after, BATCH).await?;
            let ids: Vec<ledger::DeadLetterId> = page.letters.iter().map(|letter| letter.id).collect();
            let dropped = self.ledger.ledger.drop_dead_letters(&ids).await.map_err(LedgerError::from)?;
            count += dropped.iter().filter(|dropped| **dropped).count() as u64;
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }
}

/// Replays dead letters.
pub(crate) async fn replay<B: Backend>(
    engine: &B,
    queue: &QueueName,
    filter: &DeadLetterFilter,
) -> Result<ReplayOutcome, BrokerError> {
    let (local, ledger) = (engine.local_queue(queue)?, &engine.ledger);
    let mut outcome = ReplayOutcome::default();
    let Some(filter) = ledger_filter(filter) else { return Ok(outcome) };
    let mut after = None;
    loop {
        let page = ledger.page(queue, &filter, after, BATCH).await?;
        let letters = ledger.read(queue, page.letters).await?;
        let ids: Vec<ledger::DeadLetterId> = letters.iter().map(|(id, _)| *id).collect();
        let begun = ledger.ledger.begin_replay(&ids).await.map_err(LedgerError::from)?;
        let (mut replays, mut copies) = (Vec::new(), Vec::new());
        for ((id, letter), begun) in letters.into_iter().zip(begun) {
            if let ledger::ReplayOutcome::Begun(replay) = begun {
                let (message, replays_so_far) = (letter.message, letter.replays);
                let count = replays_so_far.saturating_add(1);
                copies.push(ReplayCopy { letter: id.0, message, replays: count, epoch: replay.epoch });
                replays.push(replay);
            }
        }
        let results = engine.publish_replays(&local, copies).await;
        let confirmed = replays.iter().zip(&results).filter(|(_, result)| result.is_ok());
        let published: Vec<ledger::Replay> = confirmed.map(|(replay, _)| *replay).collect();
        ledger.ledger.end_replay(&published).await.map_err(LedgerError::from)?;
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

/// A failed attempt as the ledger has it.
fn ledger_failure(failure: &Failure) -> ledger::Failure {
    ledger::Failure { error: failure.error.clone(), at: failure.at }
}

fn detail(message: &Message, history: &History, death: &Death) -> DeadLetterDetail {
    DeadLetterDetail {
        item: message.id.to_string(),
        partition_key: message.key.clone(),
        group: message.group.clone(),
        headers: message.headers.clone(),
        published_at: message.published_at,
        cause: death.cause.as_str().to_owned(),
        reason: death.reason.clone(),
        attempts: history.attempt,
        first_error: history.first_error.as_ref().map(ledger_failure),
        last_error: history.last_error.as_ref().map(ledger_failure),
        replays: history.replays,
        defects: message.defects.iter().map(Defect::to_code).collect(),
    }
}

fn dead_letter(queue: &QueueName, letter: ledger::DeadLetter, body: Vec<u8>) -> DeadLetter {
    let failure = |failure: ledger::Failure| Failure { error: failure.error, at: failure.at };
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
            defects: detail.defects.iter().filter_map(|code| Defect::from_code(code)).collect(),
        },
        cause: DeadLetterCause::from_name(&detail.cause).unwrap_or(DeadLetterCause::Refused),
        reason: detail.reason,
        attempts: detail.attempts,
        first_error: detail.first_error.map(failure),
        last_error: detail.last_error.map(failure),
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
