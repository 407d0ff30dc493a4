//! Running the stage `index` again from what is stored, without fetching.

use super::message::{Metadata, PageMessage};
use crawlway_broker::{Broker, Outgoing, QueueName};
use crawlway_clock::Clock;
use crawlway_flow::ReplayError;
use crawlway_store::{End, IndexedPage, PageIndex, StoreError, TrailEntry, Trails};
use std::ops::ControlFlow;

/// How many pages are published together.
const TOGETHER: usize = 256;

/// Publishes every stored page to `crawler_queue` again, under the id of its item, and says how many. Messages have at most
/// `most_bytes`, if need be by leaving the original text out. `told` is called with the number so far, and may end it.
#[allow(clippy::too_many_arguments, reason = "each is a part of the process that it runs in")]
pub async fn reindex(
    index: &dyn PageIndex,
    broker: &dyn Broker,
    trails: &dyn Trails,
    clock: &Clock,
    worker: &str,
    queue: &QueueName,
    most_bytes: usize,
    mut told: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64, ReplayError> {
    let mut count = 0;
    let mut after: Option<String> = None;
    loop {
        let pages = index.scan(after.as_deref(), TOGETHER).await?;
        let Some(last) = pages.last() else { return Ok(count) };
        after = Some(last.url.clone());
        let note = |page: &IndexedPage| TrailEntry {
            item: page.item.clone(),
            subject: Some(page.url.clone()),
            flow: super::FLOW.to_owned(),
            stage: "index".to_owned(),
            at: clock.now(),
            end: End::Replayed,
            outcome: "replayed".to_owned(),
            attempt: 1,
            took_ms: 0,
            worker: worker.to_owned(),
            replays: 0,
            note: Some("from what is stored".to_owned()),
            error: None,
        };
        trails.record(&pages.iter().map(note).collect::<Vec<_>>()).await?;
        let published =
            broker.publish(pages.into_iter().map(|page| outgoing(queue, page, most_bytes)).collect()).await;
        for answer in published {
            answer.map_err(|error| StoreError::Unavailable { detail: error.to_string() })?;
            count += 1;
        }
        if told(count).is_break() {
            return Ok(count);
        }
    }
}

fn outgoing(queue: &QueueName, page: IndexedPage, most_bytes: usize) -> Outgoing {
    let metadata = Metadata {
        title: page.title,
        description: page.description,
        timestamp: page.crawled_at.to_iso(),
        status_code: i64::from(page.status_code),
    };
    let body = PageMessage::body(page.url, page.text, metadata, false, most_bytes);
    Outgoing::to_queue(queue, body).id(page.item.as_str())
}
