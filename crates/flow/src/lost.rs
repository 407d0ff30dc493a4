//! Closing the trails of items that died because their workers were lost: nobody was left to write the last entry.

use crate::ReplayError;
use crawlway_broker::{Broker, Cause, DeadFilter, QueueName};
use crawlway_clock::{Clock, Timestamp};
use crawlway_store::{End, TrailEntry, Trails};

/// How many dead letters are looked at together.
const PAGE: usize = 200;

/// A queue, and whose items are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemsOf {
    /// The queue.
    pub queue: QueueName,
    /// The flow, as trails name it.
    pub flow: &'static str,
    /// The stage that takes from the queue.
    pub stage: &'static str,
}

/// Writes the last entry of every dead item of these queues that ended with its worker and whose trail therefore does not say
/// how it ended. Says how many. Repeating it changes nothing.
pub async fn close_trails_of_the_lost(
    broker: &dyn Broker,
    trails: &dyn Trails,
    clock: &Clock,
    worker: &str,
    queues: &[ItemsOf],
) -> Result<u64, ReplayError> {
    let mut closed = 0;
    for ItemsOf { queue, flow, stage } in queues {
        let filter = DeadFilter { cause: Some(Cause::WorkerLost), ..DeadFilter::all() };
        let mut after = None;
        loop {
            let page = broker.dead_letters(queue, &filter, after.as_ref(), PAGE).await?;
            let mut entries = Vec::new();
            for letter in &page.letters {
                let item = letter.message.id.as_str();
                let trail = trails.of_item(item).await?;
                if !is_open(&trail) {
                    continue;
                }
                entries.push(TrailEntry {
                    item: item.to_owned(),
                    subject: letter.message.key.clone(),
                    flow: (*flow).to_owned(),
                    stage: (*stage).to_owned(),
                    at: letter.dead_at.max(latest(&trail)).max(Timestamp::from_millis(1)).min(clock.now()),
                    end: End::Dead,
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
            trails.record(&entries).await?;
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

/// Whether something is still to happen, as far as the trail says. An empty trail says nothing at all.
fn is_open(trail: &[TrailEntry]) -> bool {
    let last =
        |closes: bool| trail.iter().filter(|entry| entry.end.closes() == closes).map(|entry| entry.at).max();
    last(true).is_none() || last(false) > last(true)
}
