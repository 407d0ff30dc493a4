//! Failing the records of URLs that became dead letters because their workers crashed and could not fail them.

use super::{message, wiring};
use crawlway_broker::{DeadLetterCause, DeadLetterFilter, DeadLetters};
use crawlway_clock::Timestamp;
use crawlway_flow::ReplayError;
use crawlway_store::{UrlRecords, inventory::BeginOutcome};

/// Page size of the dead-letter scan.
const PAGE_SIZE: usize = 200;

/// Fails the record of every URL that is a dead letter because its worker was lost, unless the record has ended or the URL
/// was requested again. Returns how many were failed. Idempotent.
pub async fn fail_lost_records(
    broker: &dyn DeadLetters,
    records: &dyn UrlRecords,
    now: Timestamp,
) -> Result<u64, ReplayError> {
    let filter = DeadLetterFilter { cause: Some(DeadLetterCause::WorkerLost), ..DeadLetterFilter::all() };
    let mut failed = 0;
    for items in wiring::stage_queues() {
        let mut after = None;
        loop {
            let page = broker.dead_letters(&items.queue, &filter, after.as_ref(), PAGE_SIZE).await?;
            for letter in &page.letters {
                let Ok(request) = message::decode(&letter.message.body) else { continue };
                if let BeginOutcome::Started { attempt, .. } =
                    records.begin(&request.record_request(), now).await?
                {
                    records.fail(&attempt, &letter.reason, 1, now).await?;
                    failed += 1;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(failed)
}
