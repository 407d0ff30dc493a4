//! Dead letters: gone through in their own queue, from its head, one process at a time.
//!
//! A letter and its detail are one message, so that there is nothing to reconcile. Reading takes each letter and gives
//! all of them back to their old places; who takes nothing away leaves nothing changed.

use crate::{
    engine::Engine,
    error::LinkError,
    lane::Lane,
    names,
    publisher::Fate,
    session::{Session, within},
    wire::{Carried, History, Parcel, short},
};
use crawlway_broker::{
    BrokerError, DeadFilter, DeadId, DeadLetter, DeadPage, PublishError, QueueName, Replayed,
};
use lapin::{
    options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::FieldTable,
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How many letters are replayed with one round of confirms.
const TOGETHER: usize = 100;
/// How long somebody else may go through the letters before we give up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked whether somebody else is through.
const LOOK: Duration = Duration::from_millis(50);
const RESOURCE_LOCKED: u16 = 405;

/// One walk through the dead letters of a queue, from the oldest on.
struct Walk<'a> {
    engine: &'a Engine,
    session: Arc<Session>,
    queue: &'a QueueName,
    lane: Lane,
    /// How many there were at the start; what dies meanwhile is not walked through.
    left: u64,
    /// Letters that stay, to be given back.
    kept: Vec<u64>,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

struct Found {
    tag: u64,
    carried: Carried,
    letter: DeadLetter,
}

impl Engine {
    async fn walk<'a>(&'a self, queue: &'a QueueName) -> Result<Walk<'a>, BrokerError> {
        self.known(queue)?;
        let turn = self.graves.lock().entry(queue.clone()).or_default().clone();
        let turn = turn.lock_owned().await;
        let session = self.session().await?;
        self.lock_graves(&session, queue).await?;
        let begun = async {
            let left = self.count(&session, &names::dead(queue)).await?;
            Ok((left, session.lane().await?))
        };
        match begun.await {
            Ok((left, lane)) => {
                Ok(Walk { engine: self, session, queue, lane, left, kept: Vec::new(), _turn: turn })
            }
            Err(error) => {
                // Or no process could walk through them as long as this connection lasts.
                let _ = unlock_graves(&session, queue).await;
                Err(error)
            }
        }
    }

    /// An exclusive queue is a lock that the server lets go of with its holder's connection.
    async fn lock_graves(&self, session: &Session, queue: &QueueName) -> Result<(), BrokerError> {
        let name = names::dead_lock(queue);
        let started = Instant::now();
        loop {
            let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
            let locked = session
                .ask("queue.declare", async |channel| {
                    channel.queue_declare(short(&name), options, FieldTable::default()).await
                })
                .await;
            match locked {
                Ok(_) => return Ok(()),
                Err(error) if error.refusal().is_some_and(|(number, _)| number == RESOURCE_LOCKED) => {
                    if started.elapsed() > PATIENCE {
                        let detail = format!(
                            "another process has been going through the dead letters of `{queue}` for {PATIENCE:?}; try again"
                        );
                        return Err(BrokerError::Unavailable { detail });
                    }
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError> {
        let mut walk = self.walk(queue).await?;
        let page = walk.page(filter, after, limit).await;
        walk.end().await?;
        page
    }

    pub(crate) async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
    ) -> Result<Replayed, BrokerError> {
        let mut walk = self.walk(queue).await?;
        let replayed = walk.replay(filter).await;
        walk.end().await?;
        replayed
    }

    pub(crate) async fn drop_dead(&self, queue: &QueueName, filter: &DeadFilter) -> Result<u64, BrokerError> {
        let mut walk = self.walk(queue).await?;
        let dropped = walk.drop_matching(filter).await;
        walk.end().await?;
        dropped
    }
}

impl Walk<'_> {
    /// The next letter, if there is one.
    async fn next(&mut self) -> Result<Option<Found>, LinkError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let get = self.lane.channel.basic_get(short(&names::dead(self.queue)), BasicGetOptions::default());
        let limit = self.engine.options.confirm_timeout;
        let Some(message) = within(limit, "basic.get", get).await? else { return Ok(None) };
        let delivery = message.delivery;
        self.lane.came(delivery.delivery_tag);
        let carried = Carried::read(delivery.properties, delivery.data);
        let letter = carried.letter(self.queue);
        Ok(Some(Found { tag: delivery.delivery_tag, carried, letter }))
    }

    /// Letters that match, after the given one. Should that one be gone by now, those with a later id.
    async fn page(
        &mut self,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError> {
        let mut letters: VecDeque<DeadLetter> = VecDeque::new();
        if limit == 0 {
            return Ok(DeadPage { letters: Vec::new(), next: None });
        }
        // An id that is not of our making sorts nowhere.
        let sorts = after.is_some_and(|after| uuid::Uuid::try_parse(&after.0).is_ok());
        let mut passed = after.is_none();
        while let Some(found) = self.next().await? {
            self.kept.push(found.tag);
            let letter = found.letter;
            if !passed && after == Some(&letter.id) {
                passed = true;
                letters.clear();
                continue;
            }
            let later = sorts && after.is_some_and(|after| letter.id > *after);
            if (passed || later) && filter.matches(&letter) && letters.len() <= limit {
                letters.push_back(letter);
            }
            // One more than asked for tells whether there is a next page.
            if passed && letters.len() > limit {
                break;
            }
        }
        let more = letters.len() > limit;
        letters.truncate(limit);
        let next = if more { letters.back().map(|letter| letter.id.clone()) } else { None };
        Ok(DeadPage { letters: letters.into(), next })
    }

    async fn drop_matching(&mut self, filter: &DeadFilter) -> Result<u64, BrokerError> {
        let mut dropped = Vec::new();
        let most = filter.at_most().unwrap_or(usize::MAX);
        while dropped.len() < most
            && let Some(found) = self.next().await?
        {
            match filter.matches(&found.letter) {
                true => dropped.push(found.tag),
                false => self.kept.push(found.tag),
            }
        }
        self.lane.ack(&dropped).await?;
        Ok(dropped.len() as u64)
    }

    async fn replay(&mut self, filter: &DeadFilter) -> Result<Replayed, BrokerError> {
        let mut replayed = Replayed::default();
        // Who names them need not go further than the last one.
        let (most, mut matched) = (filter.at_most().unwrap_or(usize::MAX), 0);
        loop {
            let mut some: Vec<Found> = Vec::new();
            while some.len() < TOGETHER
                && matched < most
                && let Some(found) = self.next().await?
            {
                match filter.matches(&found.letter) {
                    true => {
                        matched += 1;
                        some.push(found);
                    }
                    false => self.kept.push(found.tag),
                }
            }
            if some.is_empty() || replayed.stopped.is_some() {
                self.kept.extend(some.iter().map(|found| found.tag));
                return Ok(replayed);
            }
            let parcels: Vec<Parcel> = some.iter().map(|found| self.alive(found)).collect();
            let fates = self.session.publish(parcels).await;
            let mut back = Vec::new();
            for (found, fate) in some.into_iter().zip(fates) {
                if fate == Fate::Confirmed {
                    back.push(found.tag);
                    continue;
                }
                self.kept.push(found.tag);
                replayed.stopped.get_or_insert_with(|| self.stopped(fate));
            }
            self.lane.ack(&back).await?;
            replayed.count += back.len() as u64;
        }
    }

    /// The message of a letter as it starts over.
    fn alive(&self, found: &Found) -> Parcel {
        let history =
            History { attempt: 1, replays: found.letter.replays.saturating_add(1), ..History::default() };
        let body = found.letter.message.body.clone();
        Parcel::to_queue(self.queue.to_string(), found.carried.again(&history), body)
    }

    fn stopped(&self, fate: Fate) -> PublishError {
        let limit = self.engine.intake(self.queue).and_then(|intake| intake.max_length());
        match (fate, limit) {
            (Fate::Rejected, Some(limit)) => {
                PublishError::QueueFull { queue: self.queue.clone(), limit: limit.limit() }
            }
            (Fate::Unknown(detail), _) => PublishError::Unknown { detail },
            (fate, _) => PublishError::Unavailable { detail: format!("RabbitMQ did not take it: {fate:?}") },
        }
    }

    /// Gives back what stays, sees that it is back, and lets others in.
    async fn end(self) -> Result<(), LinkError> {
        let given_back = async {
            self.lane.give_back(&self.kept).await?;
            let noted = async {
                let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
                let name = short(&names::dead(self.queue));
                // On the same channel, so that it is answered after the letters are back.
                self.lane.channel.queue_declare(name, options, FieldTable::default()).await?;
                self.lane.channel.close(200, short("done")).await
            };
            within(self.engine.options.confirm_timeout, "basic.nack", noted).await
        };
        let given_back = given_back.await;
        let unlocked = unlock_graves(&self.session, self.queue).await;
        given_back?;
        unlocked
    }
}

/// Lets others go through the dead letters of a queue.
async fn unlock_graves(session: &Session, queue: &QueueName) -> Result<(), LinkError> {
    let deleted = session.ask("queue.delete", async |channel| {
        channel.queue_delete(short(&names::dead_lock(queue)), QueueDeleteOptions::default()).await
    });
    deleted.await.map(drop)
}
