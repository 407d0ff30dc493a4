//! Reindex: stored pages pass the stage `index` again, without a fetch.

use super::message::{Metadata, PageMessage};
use crawlway_broker::{Broker, Outgoing, QueueName};
use crawlway_clock::Clock;
use crawlway_flow::ReplayError;
use crawlway_store::{AttemptEnd, IndexedPage, PageIndex, StoreError, TrailEntry, Trails};
use std::ops::ControlFlow;

/// Number of pages per publish call.
const PAGE_SIZE: usize = 256;

/// Publishes every stored page to `crawler_queue` again, under the id of its item, and returns their number. Messages have
/// at most `max_bytes`. `progress` gets the number so far, and may end it.
#[allow(clippy::too_many_arguments, reason = "each is a service of the process")]
pub async fn reindex(
    index: &dyn PageIndex,
    broker: &dyn Broker,
    trails: &dyn Trails,
    clock: &Clock,
    worker: &str,
    queue: &QueueName,
    max_bytes: usize,
    mut progress: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64, ReplayError> {
    let mut count = 0;
    let mut after: Option<String> = None;
    loop {
        let pages = index.scan(after.as_deref(), PAGE_SIZE).await?;
        let Some(last) = pages.last() else { return Ok(count) };
        after = Some(last.url.clone());
        let note = |page: &IndexedPage| TrailEntry {
            item: page.item.clone(),
            subject: Some(page.url.clone()),
            flow: super::FLOW.to_owned(),
            stage: "index".to_owned(),
            at: clock.now(),
            end: AttemptEnd::Replayed,
            outcome: "replayed".to_owned(),
            attempt: 1,
            took_ms: 0,
            worker: worker.to_owned(),
            replays: 0,
            note: Some("reindexed from the stored page".to_owned()),
            error: None,
        };
        trails.append(&pages.iter().map(note).collect::<Vec<_>>()).await?;
        let published =
            broker.publish(pages.into_iter().map(|page| outgoing(queue, page, max_bytes)).collect()).await;
        for answer in published {
            answer.map_err(|error| StoreError::Unavailable { detail: error.to_string() })?;
            count += 1;
        }
        if progress(count).is_break() {
            return Ok(count);
        }
    }
}

fn outgoing(queue: &QueueName, page: IndexedPage, max_bytes: usize) -> Outgoing {
    let metadata = Metadata {
        title: page.title,
        description: page.description,
        timestamp: page.crawled_at.to_iso(),
        status_code: i64::from(page.status_code),
    };
    let body = PageMessage::body(page.url, page.text, metadata, false, max_bytes);
    Outgoing::to_queue(queue, body).id(page.item.as_str())
}
