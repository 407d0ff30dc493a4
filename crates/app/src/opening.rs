//! Starting in any order: what is missing is waited for, with growing pauses, and is named meanwhile.

use crate::{
    config::Config,
    open,
    worker::{Runs, Terms, Worker},
};
use anyhow::Context;
use crawlway_broker::{Broker, BrokerError};
use crawlway_flow::Stop;
use crawlway_store::{GateError, StoreError, UrlRecords};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long the first pause is, and the longest. What waits inside of a call comes on top.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// What is missing, by name, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Missing(Arc<Mutex<BTreeMap<&'static str, String>>>);

impl Missing {
    /// All of it, whenever it is asked.
    pub(crate) fn told(&self) -> Vec<(&'static str, String)> {
        let missing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        missing.iter().map(|(name, why)| (*name, why.clone())).collect()
    }

    fn set(&self, name: &'static str, why: Option<String>) {
        let mut missing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(why) => drop(missing.insert(name, why)),
            None => drop(missing.remove(name)),
        }
    }
}

/// Declares the queue of URLs as soon as the broker is there, and says so. URLs are accepted from then on, whatever else is
/// missing.
pub(crate) async fn declare_urls(
    broker: &dyn Broker,
    config: &Config,
    missing: &Missing,
    declared: impl FnOnce(),
) -> anyhow::Result<()> {
    let queue = open::url_queue(config, broker);
    let mut pause = PAUSES.0;
    loop {
        match broker.declare(std::slice::from_ref(&queue)).await {
            Ok(()) => break,
            Err(error @ BrokerError::Unavailable { .. }) => {
                missing.set("queues", Some(error.to_string()));
                rest(&mut pause).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    missing.set("queues", None);
    declared();
    Ok(())
}

/// Starts the stages as soon as everything they need is there; none if it was asked to end meanwhile.
pub(crate) async fn start(
    broker: &Arc<dyn Broker>,
    config: &Config,
    runs: Runs,
    missing: &Missing,
    stop: &Stop,
) -> anyhow::Result<Option<Worker>> {
    let start = || Worker::start_on(broker.clone(), None, config, Terms::default(), runs, None, stop.clone());
    patiently(start, missing, stop).await
}

/// Opens the records of the flow `inventory`, which are on a server of their own, as soon as it is there; none if it was
/// asked to end meanwhile.
pub(crate) async fn urls(
    config: &Config,
    missing: &Missing,
    stop: &Stop,
) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    let open = async || {
        let urls = open::shared_urls(config).await?;
        urls.context("the inventory is not on a server of its own; set `inventory.store`")
    };
    patiently(open, missing, stop).await
}

/// Opens something as soon as all that it needs is there; none if it was asked to end meanwhile.
async fn patiently<T>(
    open: impl AsyncFn() -> anyhow::Result<T>,
    missing: &Missing,
    stop: &Stop,
) -> anyhow::Result<Option<T>> {
    let mut pause = PAUSES.0;
    loop {
        let opened = tokio::select! {
            opened = open() => opened,
            _ = stop.requested() => return Ok(None),
        };
        let error = match opened {
            Ok(opened) => return Ok(Some(opened)),
            Err(error) => error,
        };
        let Some(name) = passing(&error) else { return Err(error) };
        tracing::warn!(missing = name, error = format!("{error:#}"), "not there yet; waiting for it");
        missing.set(name, Some(format!("{error:#}")));
        tokio::select! {
            () = rest(&mut pause) => {}
            _ = stop.requested() => return Ok(None),
        }
        missing.set(name, None);
    }
}

/// Which part is missing, if waiting for it can help.
fn passing(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        if let Some(BrokerError::Unavailable { .. }) = cause.downcast_ref() {
            return Some("queues");
        }
        if let Some(GateError::Unavailable { .. }) = cause.downcast_ref() {
            return Some("gate");
        }
        cause.downcast_ref::<StoreError>().filter(|error| error.is_transient()).map(|_| "records")
    })
}

async fn rest(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(PAUSES.1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn only_what_can_come_back_is_waited_for() {
        let away = StoreError::Unavailable { detail: "refused".to_owned() };
        let error = Err::<(), _>(away).context("cannot open the records").unwrap_err();
        assert_eq!(passing(&error), Some("records"));
        let gate = GateError::Unavailable { detail: "refused".to_owned() };
        assert_eq!(passing(&anyhow::Error::new(gate)), Some("gate"));
        let broker = BrokerError::Unavailable { detail: "refused".to_owned() };
        assert_eq!(passing(&anyhow::Error::new(broker)), Some("queues"));
        let wrong = StoreError::Invalid { problem: "the address is none".to_owned() };
        assert_eq!(passing(&anyhow::Error::new(wrong)), None);
        assert_eq!(passing(&anyhow!("`records.postgresql.url` is empty; set it")), None);
    }
}
