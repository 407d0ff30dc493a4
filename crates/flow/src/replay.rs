//! Replaying dead letters so that their trails go on.

use crawlway_broker::{Broker, BrokerError, DeadFilter, DeadLetter, QueueName, Replayed};
use crawlway_clock::Clock;
use crawlway_store::{End, StoreError, TrailEntry, Trails};

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

/// Puts matching dead letters back into their queue, noting it in their trails first: a letter whose note was written
/// and that could not be put back is still a dead letter, and says so.
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
    // Those that die again meanwhile are left for the next time.
    let started = clock.now();
    let mut after = None;
    loop {
        let page = broker.dead_letters(queue, filter, after.as_ref(), PAGE).await?;
        let due: Vec<&DeadLetter> = page.letters.iter().filter(|letter| letter.dead_at <= started).collect();
        let note = |letter: &&DeadLetter| TrailEntry {
            item: letter.message.id.as_str().to_owned(),
            subject: None,
            flow: flow.to_owned(),
            stage: queue.as_str().to_owned(),
            at: clock.now(),
            end: End::Replayed,
            outcome: "replayed".to_owned(),
            attempt: letter.attempts,
            took_ms: 0,
            worker: by.to_owned(),
            error: Some(letter.reason.clone()),
        };
        trails.record(&due.iter().map(note).collect::<Vec<_>>()).await?;
        for letter in due {
            let one = broker.replay(queue, &DeadFilter::one(letter.id.clone())).await?;
            all.count += one.count;
            if one.stopped.is_some() {
                all.stopped = one.stopped;
                return Ok(all);
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}
