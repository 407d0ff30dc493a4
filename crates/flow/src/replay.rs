//! Replay of dead letters that continues their trails.

use crate::ItemId;
use crawlway_broker::{
    BrokerError, DeadLetter, DeadLetterFilter, DeadLetterId, DeadLetters, MessageId, QueueName, ReplayOutcome,
};
use crawlway_clock::{Clock, Timestamp};
use crawlway_store::{AttemptEnd, StoreError, TrailEntry, Trails};
use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashSet},
};

/// Page size of the dead-letter scan.
const PAGE_SIZE: usize = 256;

/// Reason why a replay failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The trails could not be written. Items replayed before stay replayed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Queue whose dead letters are replayed.
#[derive(Debug, Clone, Copy)]
pub struct ReplayedQueue<'a> {
    /// Name of the queue.
    pub queue: &'a QueueName,
    /// Name of its flow in trails.
    pub flow: &'a str,
    /// Where its messages have the ids of their items.
    pub item_id: ItemId,
}

/// Moves matching dead letters back into their queue. The trail entry is written first, so that no replayed item lacks
/// it; a dead letter that could then not be replayed gets another entry with the reason.
pub async fn replay(
    broker: &dyn DeadLetters,
    trails: &dyn Trails,
    clock: &Clock,
    by: &str,
    of: ReplayedQueue<'_>,
    filter: &DeadLetterFilter,
) -> Result<ReplayOutcome, ReplayError> {
    let mut total = ReplayOutcome::default();
    let mut replay = Replay { broker, trails, clock, by, of, started: clock.now(), replayed: HashSet::new() };
    let mut after = None;
    loop {
        let page = broker.dead_letters(of.queue, filter, after.as_ref(), PAGE_SIZE).await?;
        let due: Vec<&DeadLetter> = page.letters.iter().filter(|letter| replay.is_due(letter)).collect();
        if !due.is_empty() {
            let replayed = replay.replay_page(&due).await?;
            total.count += replayed.count;
            total.stopped = replayed.stopped;
        }
        after = page.next;
        if after.is_none() || total.stopped.is_some() {
            return Ok(total);
        }
    }
}

struct Replay<'a> {
    broker: &'a dyn DeadLetters,
    trails: &'a dyn Trails,
    clock: &'a Clock,
    by: &'a str,
    of: ReplayedQueue<'a>,
    started: Timestamp,
    /// Items that were replayed in the millisecond of the start: if they become dead letters again at once, the time does not tell it.
    replayed: HashSet<MessageId>,
}

impl Replay<'_> {
    /// Whether a dead letter existed before the start. Items that become dead letters again during the replay are not replayed twice.
    fn is_due(&self, letter: &DeadLetter) -> bool {
        match letter.dead_at.cmp(&self.started) {
            Ordering::Less => true,
            Ordering::Equal => !self.replayed.contains(&letter.message.id),
            Ordering::Greater => false,
        }
    }

    async fn replay_page(&mut self, due: &[&DeadLetter]) -> Result<ReplayOutcome, ReplayError> {
        let mut entries = Vec::with_capacity(due.len());
        for letter in due {
            let replays = letter.replays.saturating_add(1);
            entries.push(self.entry(letter, AttemptEnd::Replayed, replays, &letter.reason).await?);
        }
        self.trails.append(&entries).await?;
        if self.clock.now() <= self.started {
            self.replayed.extend(due.iter().map(|letter| letter.message.id.clone()));
        }
        let filter = DeadLetterFilter::with_ids(due.iter().map(|letter| letter.id.clone()));
        let replayed = self.broker.replay(self.of.queue, &filter).await;
        let error = match &replayed {
            Ok(replayed) => replayed.stopped.as_ref().map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = error {
            self.record_not_replayed(due, &filter, &error).await?;
        }
        Ok(replayed?)
    }

    /// Writes an entry for each letter that is still dead; for all of them if the broker cannot list them.
    async fn record_not_replayed(
        &self,
        due: &[&DeadLetter],
        filter: &DeadLetterFilter,
        error: &str,
    ) -> Result<(), StoreError> {
        let left = self.broker.dead_letters(self.of.queue, filter, None, due.len()).await;
        let left: BTreeSet<DeadLetterId> = match left {
            Ok(left) => left.letters.into_iter().map(|letter| letter.id).collect(),
            Err(_) => filter.ids.clone(),
        };
        let mut entries = Vec::new();
        for letter in due.iter().filter(|letter| left.contains(&letter.id)) {
            let reason = format!("{}; could not be replayed: {error}", letter.reason);
            entries.push(self.entry(letter, AttemptEnd::Dead, letter.replays, &reason).await?);
        }
        self.trails.append(&entries).await
    }

    async fn entry(
        &self,
        letter: &DeadLetter,
        end: AttemptEnd,
        replays: u32,
        text: &str,
    ) -> Result<TrailEntry, StoreError> {
        let (note, error) = end.note_or_error(Some(text.to_owned()));
        Ok(TrailEntry {
            item: self.of.item_id.of_trail(self.trails, &letter.message).await?,
            subject: None,
            flow: self.of.flow.to_owned(),
            stage: self.of.queue.as_str().to_owned(),
            at: self.clock.now(),
            end,
            outcome: end.as_str().to_owned(),
            attempt: letter.attempts,
            took_ms: 0,
            worker: self.by.to_owned(),
            replays,
            note,
            error,
        })
    }
}
