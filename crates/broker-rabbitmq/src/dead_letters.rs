//! Dead letters: scans of the dead-letter queue from its head, one process at a time.
//!
//! A dead letter and its detail are one message. A scan gets each letter, and at its end nacks those that stay, so that they
//! keep their places.

use crate::{
    ack_channel::AckChannel,
    engine::Engine,
    error::{RESOURCE_LOCKED, SessionError},
    names,
    publisher::PublishOutcome,
    session::{Session, with_timeout},
    wire::{DecodedMessage, Publication, short},
};
use crawlway_broker::{
    BrokerError, DeadLetter, DeadLetterFilter, DeadLetterId, DeadLetterPage, PublishError, QueueName,
    ReplayOutcome, history::History,
};
use lapin::{
    options::{BasicGetOptions, QueueDeclareOptions},
    types::FieldTable,
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Number of letters that are replayed per batch of confirms.
const REPLAY_BATCH: usize = 100;
/// Maximum time to wait for the scan of another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A scan of a queue's dead letters, oldest first.
struct Scan<'a> {
    engine: &'a Engine,
    session: Arc<Session>,
    queue: &'a QueueName,
    ack_channel: AckChannel,
    /// Letters left of those that existed at the start.
    left: u64,
    /// Tags of the letters that stay.
    kept: Vec<u64>,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

struct ScannedLetter {
    tag: u64,
    decoded: DecodedMessage,
    letter: DeadLetter,
}

impl Engine {
    async fn scan<'a>(&'a self, queue: &'a QueueName) -> Result<Scan<'a>, BrokerError> {
        self.local_queue(queue)?;
        let turn = self.dead_letter_scans.lock().entry(queue.clone()).or_default().clone();
        let turn = turn.lock_owned().await;
        let session = self.session().await?;
        lock(&session, queue).await?;
        let started = async {
            let left = session.message_count(&names::dead_letters(queue)).await?;
            Ok((left, session.open_ack_channel().await?))
        };
        match started.await {
            Ok((left, ack_channel)) => {
                Ok(Scan { engine: self, session, queue, ack_channel, left, kept: Vec::new(), _turn: turn })
            }
            Err(error) => {
                // Otherwise the lock would last as long as this connection.
                let _ = unlock(&session, queue).await;
                Err(error)
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
        let mut scan = self.scan(queue).await?;
        let page = scan.page(filter, after, limit).await;
        scan.end().await?;
        page
    }

    pub(crate) async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        let mut scan = self.scan(queue).await?;
        let replayed = scan.replay(filter).await;
        scan.end().await?;
        replayed
    }

    pub(crate) async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        let mut scan = self.scan(queue).await?;
        let dropped = scan.drop_matching(filter).await;
        scan.end().await?;
        dropped
    }
}

impl Scan<'_> {
    /// Next letter.
    async fn next(&mut self) -> Result<Option<ScannedLetter>, SessionError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let get = self
            .ack_channel
            .channel
            .basic_get(short(&names::dead_letters(self.queue)), BasicGetOptions::default());
        let timeout = self.engine.options.confirm_timeout;
        let Some(message) = with_timeout(timeout, "basic.get", get).await? else { return Ok(None) };
        let delivery = message.delivery;
        self.ack_channel.on_delivery(delivery.delivery_tag);
        let decoded = DecodedMessage::decode(delivery.properties, delivery.data);
        let letter = decoded.decode_dead_letter(self.queue);
        Ok(Some(ScannedLetter { tag: delivery.delivery_tag, decoded, letter }))
    }

    /// Matching letters after the cursor. If the cursor's letter is gone, those with a later id.
    async fn page(
        &mut self,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        let mut letters: VecDeque<DeadLetter> = VecDeque::new();
        if limit == 0 {
            return Ok(DeadLetterPage { letters: Vec::new(), next: None });
        }
        // Only ids of this crate are ordered by time.
        let is_ordered = after.is_some_and(|after| uuid::Uuid::try_parse(&after.0).is_ok());
        let mut passed = after.is_none();
        while let Some(found) = self.next().await? {
            self.kept.push(found.tag);
            let letter = found.letter;
            if !passed && after == Some(&letter.id) {
                passed = true;
                letters.clear();
                continue;
            }
            let later = is_ordered && after.is_some_and(|after| letter.id > *after);
            if (passed || later) && filter.matches(&letter) && letters.len() <= limit {
                letters.push_back(letter);
            }
            // One more than the limit: there is a next page.
            if passed && letters.len() > limit {
                break;
            }
        }
        let more = letters.len() > limit;
        letters.truncate(limit);
        let next = if more { letters.back().map(|letter| letter.id.clone()) } else { None };
        Ok(DeadLetterPage { letters: letters.into(), next })
    }

    async fn drop_matching(&mut self, filter: &DeadLetterFilter) -> Result<u64, BrokerError> {
        let mut dropped = Vec::new();
        let max = filter.max_matches().unwrap_or(usize::MAX);
        while dropped.len() < max
            && let Some(found) = self.next().await?
        {
            match filter.matches(&found.letter) {
                true => dropped.push(found.tag),
                false => self.kept.push(found.tag),
            }
        }
        self.ack_channel.ack(&dropped).await?;
        Ok(dropped.len() as u64)
    }

    async fn replay(&mut self, filter: &DeadLetterFilter) -> Result<ReplayOutcome, BrokerError> {
        let mut replayed = ReplayOutcome::default();
        // A filter by ids ends the scan after the last match.
        let (max, mut matched) = (filter.max_matches().unwrap_or(usize::MAX), 0);
        loop {
            let mut batch: Vec<ScannedLetter> = Vec::new();
            while batch.len() < REPLAY_BATCH
                && matched < max
                && let Some(found) = self.next().await?
            {
                match filter.matches(&found.letter) {
                    true => {
                        matched += 1;
                        batch.push(found);
                    }
                    false => self.kept.push(found.tag),
                }
            }
            if batch.is_empty() || replayed.stopped.is_some() {
                self.kept.extend(batch.iter().map(|found| found.tag));
                return Ok(replayed);
            }
            let publications: Vec<Publication> = batch.iter().map(|found| self.replayed(found)).collect();
            let outcomes = self.session.publish(publications).await;
            let mut confirmed = Vec::new();
            for (found, outcome) in batch.into_iter().zip(outcomes) {
                if outcome == PublishOutcome::Confirmed {
                    confirmed.push(found.tag);
                    continue;
                }
                self.kept.push(found.tag);
                replayed.stopped.get_or_insert_with(|| self.replay_error(outcome));
            }
            self.ack_channel.ack(&confirmed).await?;
            replayed.count += confirmed.len() as u64;
        }
    }

    /// Copy of a letter's message with a new history.
    fn replayed(&self, found: &ScannedLetter) -> Publication {
        let history = History { replays: found.letter.replays.saturating_add(1), ..History::default() };
        let body = found.letter.message.body.clone();
        Publication::to_queue(self.queue.to_string(), found.decoded.encode_copy(&history), body)
    }

    fn replay_error(&self, outcome: PublishOutcome) -> PublishError {
        let limit = self.engine.queues.find(self.queue).and_then(|local| local.max_length());
        match (outcome, limit) {
            (PublishOutcome::Rejected, Some(limit)) => {
                PublishError::QueueFull { queue: self.queue.clone(), limit: limit.limit() }
            }
            (PublishOutcome::Unknown(detail), _) => PublishError::Unconfirmed { detail },
            (outcome, _) => {
                PublishError::Unavailable { detail: format!("RabbitMQ did not confirm it: {outcome:?}") }
            }
        }
    }

    /// Returns the letters that stay and unlocks the dead-letter queue.
    async fn end(self) -> Result<(), SessionError> {
        let returned = async {
            self.ack_channel.nack(&self.kept).await?;
            let synced = async {
                let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
                let name = short(&names::dead_letters(self.queue));
                // On the same channel, so that it is answered after the nacks.
                self.ack_channel.channel.queue_declare(name, options, FieldTable::default()).await?;
                self.ack_channel.channel.close(200, short("done")).await
            };
            with_timeout(self.engine.options.confirm_timeout, "basic.nack", synced).await
        };
        let returned = returned.await;
        let unlocked = unlock(&self.session, self.queue).await;
        returned?;
        unlocked
    }
}

/// Locks the dead-letter queue with an exclusive queue, which the server deletes with the connection.
async fn lock(session: &Session, queue: &QueueName) -> Result<(), BrokerError> {
    let name = names::dead_letter_lock(queue);
    let started = Instant::now();
    loop {
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        match session.declare_queue(&name, options, FieldTable::default()).await {
            Ok(()) => return Ok(()),
            Err(error) if error.refusal().is_some_and(|(code, _)| code == RESOURCE_LOCKED) => {
                if started.elapsed() > LOCK_TIMEOUT {
                    let detail = format!(
                        "another process has been scanning the dead letters of `{queue}` for {LOCK_TIMEOUT:?}; try again"
                    );
                    return Err(BrokerError::Unavailable { detail });
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOCK_RETRY_DELAY).await;
    }
}

async fn unlock(session: &Session, queue: &QueueName) -> Result<(), SessionError> {
    session.delete_queue(&names::dead_letter_lock(queue)).await
}
