//! Answers to requests whose messages became dead letters without one, such as those that crash their workers.

use super::{
    fetch::publish,
    message::Head,
    wiring::{crawl_requests, crawl_responses},
};
use crawlway_broker::{Broker, BrokerError, DeadLetterCause, DeadLetterFilter, DeadLetterId, DeadLetters};
use crawlway_clock::{Clock, Timestamp};
use crawlway_flow::Shutdown;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// Interval of the scans.
const INTERVAL: Duration = Duration::from_secs(30);
/// Overlap of two scans, in case the clocks of the processes differ.
const OVERLAP: Duration = Duration::from_secs(60);
/// Age of the dead letters that the first scan answers, since the worker that died with them may have been the last. An answer that
/// is repeated changes nothing.
const FIRST_AGE: Duration = Duration::from_secs(600);
/// Page size of a scan.
const PAGE_SIZE: usize = 200;

/// Answers the requests of new dead letters until the shutdown.
pub async fn answer_dead_letters(
    broker: Arc<dyn Broker>,
    letters: Arc<dyn DeadLetters>,
    clock: Clock,
    stop: Shutdown,
) {
    let (mut since, mut answered) = (clock.now() - FIRST_AGE, HashMap::new());
    loop {
        let started = clock.now();
        answered.retain(|_, dead_at| *dead_at >= since);
        match scan(&*broker, &*letters, since, &mut answered).await {
            Ok(()) => since = started - OVERLAP,
            Err(error) => tracing::debug!(%error, "cannot read the dead letters of the requests"),
        }
        tokio::select! {
            _ = stop.requested() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Answers the dead letters since a time that are not among those answered before.
async fn scan(
    broker: &dyn Broker,
    letters: &dyn DeadLetters,
    since: Timestamp,
    answered: &mut HashMap<DeadLetterId, Timestamp>,
) -> Result<(), BrokerError> {
    let filter = DeadLetterFilter { since: Some(since), ..DeadLetterFilter::all() };
    let mut after = None;
    loop {
        let page = letters.dead_letters(&crawl_requests(), &filter, after.as_ref(), PAGE_SIZE).await?;
        for letter in &page.letters {
            // The stage answers what it refuses, if the message says to whom.
            if letter.cause == DeadLetterCause::Refused || answered.contains_key(&letter.id) {
                continue;
            }
            let Some(head) = Head::answerable(&letter.message) else { continue };
            let answer = head.failed(&crawl_responses(), &letter.reason);
            publish(broker, answer)
                .await
                .map_err(|error| BrokerError::Unavailable { detail: error.to_string() })?;
            answered.insert(letter.id.clone(), letter.dead_at);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}
