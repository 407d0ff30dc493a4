//! Ending the records of URLs that took their workers with them, so that these could not end them.

use super::{message, wiring};
use crawlway_broker::{Broker, BrokerError, Cause, DeadFilter};
use crawlway_clock::Timestamp;
use crawlway_store::{
    StoreError, UrlRecords,
    inventory::{Begun, Request},
};

/// How many dead letters are looked at together.
const PAGE: usize = 200;

/// Why records could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum LostError {
    /// The dead letters could not be read.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The records could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Fails the record of every URL that is a dead letter because its worker was lost, permanently, unless it has ended or was asked for
/// again since. Says how many. Repeating it changes nothing.
pub async fn fail_records_of_the_lost(
    broker: &dyn Broker,
    records: &dyn UrlRecords,
    now: Timestamp,
) -> Result<u64, LostError> {
    let filter = DeadFilter { cause: Some(Cause::WorkerLost), ..DeadFilter::all() };
    let mut failed = 0;
    for items in wiring::items() {
        let mut after = None;
        loop {
            let page = broker.dead_letters(&items.queue, &filter, after.as_ref(), PAGE).await?;
            for letter in &page.letters {
                let Ok(asked) = message::read(&letter.message.body) else { continue };
                let request = Request {
                    url: asked.url.as_str().to_owned(),
                    message_id: asked.message_id,
                    requested_at: asked.requested_at,
                };
                if let Begun::Yours { attempt, .. } = records.begin(&request, now).await? {
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
