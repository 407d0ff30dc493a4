//! Upkeep of the store: requests past their deadline fail, and those that were not confirmed are published again.

use super::{message::request_message, wiring::crawl_requests};
use crawlway_broker::Broker;
use crawlway_flow::Shutdown;
use crawlway_store::{RequestStore, StoreError, requests::CrawlRequest};
use std::{sync::Arc, time::Duration};

/// Interval of the upkeep.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of requests of one call.
const BATCH: usize = 100;

/// Runs the upkeep until the shutdown. Several processes may do so.
pub async fn keep_up(broker: Arc<dyn Broker>, store: Arc<dyn RequestStore>, stop: Shutdown) {
    let mut is_failing = false;
    loop {
        tokio::select! {
            _ = stop.requested() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        match run_once(&*broker, &*store).await {
            Ok(()) => is_failing = false,
            Err(error) if is_failing => tracing::debug!(%error, "the upkeep of the requests fails"),
            Err(error) => {
                is_failing = true;
                tracing::warn!(%error, "the upkeep of the requests fails; it is repeated every second");
            }
        }
    }
}

async fn run_once(broker: &dyn Broker, store: &dyn RequestStore) -> Result<(), StoreError> {
    let reason = format!("no answer within {:?}", store.policy().timeout);
    while store.expire(&reason, BATCH).await? == BATCH {}
    // A broker that is away keeps the outbox as it is.
    if broker.reachable_for(&crawl_requests()).is_err() {
        return Ok(());
    }
    loop {
        let unpublished = store.take_unpublished(BATCH).await?;
        if unpublished.is_empty() {
            return Ok(());
        }
        tracing::info!(count = unpublished.len(), "publishing requests again that were not confirmed");
        publish_all(broker, store, &unpublished).await?;
    }
}

/// Publishes requests, and removes those that are confirmed from the outbox.
pub(super) async fn publish_all(
    broker: &dyn Broker,
    store: &dyn RequestStore,
    requests: &[CrawlRequest],
) -> Result<(), StoreError> {
    let queue = crawl_requests();
    let messages = requests.iter().map(|request| request_message(&queue, request)).collect();
    let mut confirmed = Vec::with_capacity(requests.len());
    for (request, answer) in requests.iter().zip(broker.publish(messages).await) {
        match answer {
            Ok(()) => confirmed.push(request.clone()),
            Err(error) => {
                tracing::warn!(request = request.id, %error, "a request was not confirmed; it stays in the outbox");
            }
        }
    }
    crawlway_flow::fail::passed(super::submit::NAME, super::SubmitStep::Published.name());
    store.published(&confirmed).await
}
