//! Answers to requests whose messages became dead letters without one, such as those that crash their workers.

use super::{
    fetch::publish,
    message::Head,
    wiring::{crawl_requests, crawl_responses},
};
use crawlway_broker::{Broker, BrokerError, DeadLetterCause, DeadLetterFilter, DeadLetters};
use crawlway_clock::{Clock, Timestamp};
use crawlway_flow::Shutdown;
use std::{sync::Arc, time::Duration};

/// Interval of the scans.
const INTERVAL: Duration = Duration::from_secs(30);
/// Overlap of two scans. An answer that is repeated changes nothing.
const OVERLAP: Duration = Duration::from_secs(60);
/// Age of the dead letters that the first scan finds.
const FIRST_AGE: Duration = Duration::from_secs(3600);
/// Page size of a scan.
const PAGE_SIZE: usize = 200;

/// Answers the requests of new dead letters until the shutdown.
pub async fn answer_dead_letters(
    broker: Arc<dyn Broker>,
    letters: Arc<dyn DeadLetters>,
    clock: Clock,
    stop: Shutdown,
) {
    let mut since = clock.now() - FIRST_AGE;
    loop {
        let started = clock.now();
        match scan(&*broker, &*letters, since).await {
            Ok(()) => since = started - OVERLAP,
            Err(error) => tracing::debug!(%error, "cannot read the dead letters of the requests"),
        }
        tokio::select! {
            _ = stop.requested() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

async fn scan(broker: &dyn Broker, letters: &dyn DeadLetters, since: Timestamp) -> Result<(), BrokerError> {
    let filter = DeadLetterFilter { since: Some(since), ..DeadLetterFilter::all() };
    let mut after = None;
    loop {
        let page = letters.dead_letters(&crawl_requests(), &filter, after.as_ref(), PAGE_SIZE).await?;
        for letter in &page.letters {
            // The stage answers what it refuses, if the message says to whom.
            if letter.cause == DeadLetterCause::Refused {
                continue;
            }
            let Some(head) = Head::answerable(&letter.message) else { continue };
            let answer = head.failed(&crawl_responses(), &letter.reason);
            publish(broker, answer)
                .await
                .map_err(|error| BrokerError::Unavailable { detail: error.to_string() })?;
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}
