//! Replaying dead letters so that their trails go on.

use crawlway_broker::{Broker, BrokerError, DeadFilter, DeadId, DeadLetter, MessageId, QueueName, Replayed};
use crawlway_clock::Clock;
use crawlway_store::{End, StoreError, TrailEntry, Trails};
use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashSet},
};

/// How many letters are looked at together.
const PAGE: usize = 256;

/// Why a replay could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The trails could not be written. What had been replayed before stays so.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Puts matching dead letters back into their queue, noting it in their trails first, so that no replayed item lacks the
/// note. Those that could then not be put back are still dead letters, and their trails say that too.
pub async fn replay(
    broker: &dyn Broker,
    trails: &dyn Trails,
    clock: &Clock,
    flow: &str,
    by: &str,
    queue: &QueueName,
    filter: &DeadFilter,
) -> Result<Replayed, ReplayError> {
    let mut all = Replayed::default();
    // Those that die again meanwhile are left for the next time. The clock cannot tell those of the first moment.
    let started = clock.now();
    let mut at_once: HashSet<MessageId> = HashSet::new();
    let mut after = None;
    loop {
        let page = broker.dead_letters(queue, filter, after.as_ref(), PAGE).await?;
        let due: Vec<&DeadLetter> = page
            .letters
            .iter()
            .filter(|letter| match letter.dead_at.cmp(&started) {
                Ordering::Less => true,
                Ordering::Equal => !at_once.contains(&letter.message.id),
                Ordering::Greater => false,
            })
            .collect();
        let note = |letter: &DeadLetter, end: End, replays: u32, why: &str| {
            let (note, error) = end.note_or_error(Some(why.to_owned()));
            TrailEntry {
                item: letter.message.id.as_str().to_owned(),
                subject: None,
                flow: flow.to_owned(),
                stage: queue.as_str().to_owned(),
                at: clock.now(),
                end,
                outcome: end.as_str().to_owned(),
                attempt: letter.attempts,
                took_ms: 0,
                worker: by.to_owned(),
                replays,
                note,
                error,
            }
        };
        let notes: Vec<_> = due
            .iter()
            .map(|letter| note(letter, End::Replayed, letter.replays.saturating_add(1), &letter.reason))
            .collect();
        trails.record(&notes).await?;
        if clock.now() <= started {
            at_once.extend(due.iter().map(|letter| letter.message.id.clone()));
        }
        if !due.is_empty() {
            let these = DeadFilter::these(due.iter().map(|letter| letter.id.clone()));
            let some = broker.replay(queue, &these).await;
            let why = match &some {
                Ok(Replayed { stopped: None, .. }) => None,
                Ok(Replayed { stopped: Some(error), .. }) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = why {
                // Those that are still there. If that cannot be asked, they may be any of them.
                let left = broker.dead_letters(queue, &these, None, due.len()).await;
                let left = left.map_or_else(|_| these.ids.clone(), |left| ids(&left.letters));
                let still = |letter: &&DeadLetter| {
                    note(
                        letter,
                        End::Dead,
                        letter.replays,
                        &format!("{}; could not be replayed: {why}", letter.reason),
                    )
                };
                let still = due.iter().filter(|letter| left.contains(&letter.id)).map(still);
                trails.record(&still.collect::<Vec<_>>()).await?;
            }
            let some = some?;
            all.count += some.count;
            if some.stopped.is_some() {
                all.stopped = some.stopped;
                return Ok(all);
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

fn ids(letters: &[DeadLetter]) -> BTreeSet<DeadId> {
    letters.iter().map(|letter| letter.id.clone()).collect()
}
