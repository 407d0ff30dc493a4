//! Closing the trails of items that became dead letters because their workers crashed and could not write the last entry.

use crate::{ItemId, ReplayError};
use crawlway_broker::{DeadLetterCause, DeadLetterFilter, DeadLetters, QueueName};
use crawlway_clock::{Clock, Timestamp};
use crawlway_store::{AttemptEnd, TrailEntry, Trails};

/// Page size of the dead-letter scan.
const PAGE_SIZE: usize = 200;

/// Queue with the stage that consumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageQueue {
    /// Name of the queue.
    pub queue: QueueName,
    /// Name of the flow in trails.
    pub flow: &'static str,
    /// Name of the stage that receives from the queue.
    pub stage: &'static str,
    /// Where its messages have the ids of their items.
    pub item_id: ItemId,
}

/// Writes the last trail entry of every dead letter in these queues whose worker was lost, unless the trail is closed.
/// Returns how many were written. Idempotent.
pub async fn close_lost_trails(
    broker: &dyn DeadLetters,
    trails: &dyn Trails,
    clock: &Clock,
    worker: &str,
    queues: &[StageQueue],
) -> Result<u64, ReplayError> {
    let mut closed = 0;
    for StageQueue { queue, flow, stage, item_id } in queues {
        let filter = DeadLetterFilter { cause: Some(DeadLetterCause::WorkerLost), ..DeadLetterFilter::all() };
        let mut after = None;
        loop {
            let page = broker.dead_letters(queue, &filter, after.as_ref(), PAGE_SIZE).await?;
            let mut entries = Vec::new();
            for letter in &page.letters {
                let item = item_id.of_trail(trails, &letter.message).await?;
                let trail = trails.of_item(&item).await?;
                if !is_open(&trail) {
                    continue;
                }
                entries.push(TrailEntry {
                    item,
                    subject: letter.message.key.clone(),
                    flow: (*flow).to_owned(),
                    stage: (*stage).to_owned(),
                    at: letter.dead_at.max(latest(&trail)).max(Timestamp::from_millis(1)).min(clock.now()),
                    end: AttemptEnd::Dead,
                    outcome: "dead".to_owned(),
                    attempt: letter.attempts,
                    took_ms: 0,
                    worker: worker.to_owned(),
                    replays: letter.replays,
                    note: None,
                    error: Some(letter.reason.clone()),
                });
            }
            closed += entries.len() as u64;
            trails.append(&entries).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(closed)
}

fn latest(trail: &[TrailEntry]) -> Timestamp {
    trail.iter().map(|entry| entry.at).max().unwrap_or_default()
}

/// Whether a trail lacks its closing entry. An empty trail is open.
fn is_open(trail: &[TrailEntry]) -> bool {
    let last = |closes: bool| {
        trail.iter().filter(|entry| entry.end.is_terminal() == closes).map(|entry| entry.at).max()
    };
    last(true).is_none() || last(false) > last(true)
}
