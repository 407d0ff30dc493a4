//! Opening what a process works on: at once, or, where servers may come in any order, part by part and again until each is
//! there. What is missing is named meanwhile.

use crate::{config::Config, open, worker::Runs};
use anyhow::Context;
use crawlway_broker::{Broker, BrokerError};
use crawlway_flow::Stop;
use crawlway_gateway::{Probe, Readiness};
use crawlway_lock::DirectoryLock;
use crawlway_store::{Gate, GateError, PageIndex, SeenUrls, StoreError, UrlRecords};
use std::{fmt, sync::Arc, time::Duration};

/// How long the first pause between two tries is, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How parts are opened.
pub(crate) struct Opening<'a> {
    /// Told which part is missing, and why, and which one is there.
    pub(crate) readiness: &'a Readiness,
    /// A part that is missing is tried again until this is requested; without it, it is an error.
    pub(crate) until: Option<&'a Stop>,
}

/// The process was asked to end before everything was there.
#[derive(Debug)]
struct AskedToEnd;

impl fmt::Display for AskedToEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process was asked to end")
    }
}

impl std::error::Error for AskedToEnd {}

/// `None` if it was asked to end meanwhile.
pub(crate) fn unless_asked_to_end<T>(opened: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.is::<AskedToEnd>() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Opening<'_> {
    /// Opens the part of this name.
    async fn part<T>(&self, name: &str, open: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        self.parts(&[name], open).await
    }

    /// Opens parts that are kept in one place.
    async fn parts<T>(&self, names: &[&str], open: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let noted = async || {
            let opened = open().await;
            if let Err(error) = &opened {
                for name in names {
                    self.readiness.failed(name, format!("{error:#}"));
                }
            }
            opened
        };
        self.again(noted).await
    }

    /// Does something, again after a while if what it needs may come back.
    pub(crate) async fn again<T>(&self, open: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let Some(stop) = self.until else { return open().await };
        let mut pause = PAUSES.0;
        loop {
            let opened = tokio::select! {
                opened = open() => opened,
                _ = stop.requested() => return Err(AskedToEnd.into()),
            };
            let error = match opened {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            if !may_pass(&error) {
                return Err(error);
            }
            tracing::warn!(error = format!("{error:#}"), "not there yet; waiting for it");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.requested() => return Err(AskedToEnd.into()),
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// How long one try may wait for a server by itself; `None` for as long as the settings say.
    fn patience(&self) -> Option<Duration> {
        self.until.map(|_| Duration::ZERO)
    }
}

/// The stores that a process works on.
pub(crate) struct Stores {
    pub(crate) records: open::Records,
    pub(crate) seen: Arc<dyn SeenUrls>,
    /// The records of the flow `inventory`.
    pub(crate) urls: Arc<dyn UrlRecords>,
    pub(crate) gate: Arc<dyn Gate>,
    /// The search index, if it was asked for.
    pub(crate) index: Option<Arc<dyn PageIndex>>,
    /// Held while the records are this process's own.
    pub(crate) lock: Option<DirectoryLock>,
}

/// Opens the stores that these stages need. Each server is opened by itself, so that none is waited for behind another.
pub(crate) async fn stores(
    config: &Config,
    runs: Runs,
    with_index: bool,
    opening: &Opening<'_>,
) -> anyhow::Result<Stores> {
    let lock = open::lock_records(config)?;
    let within = opening.patience();
    let opened = |name: &str, probe: Probe| opening.readiness.opened(name, probe);
    let records = async {
        let open = async || {
            let records = open::records(config, within).await?;
            records.take_back(config).await?;
            Ok(records)
        };
        // What is kept with the records is there with them.
        let parts: Vec<&str> = ["records"].into_iter().chain(open::kept_with_records(config)).collect();
        let records = opening.parts(&parts, open).await?;
        for part in parts {
            opened(part, records.probe(config));
        }
        let gate = match runs.asks_the_gate() {
            true => opening.part("gate", async || open::gate_with_records(config, &records).await).await?,
            false => None,
        };
        anyhow::Ok((records, gate))
    };
    // What is not asked here is not waited for.
    let seen = async {
        let seen = match runs.asks_seen() {
            true => opening.part("seen", async || open::shared_seen(config, within).await).await?,
            false => None,
        };
        if let Some(seen) = &seen {
            opened("seen", open::seen_probe(seen.clone()));
        }
        anyhow::Ok(seen)
    };
    let urls = async {
        match runs.has_inventory() {
            true => shared_urls(config, opening).await,
            false => anyhow::Ok(None),
        }
    };
    let gate = async {
        let gate = match runs.asks_the_gate() {
            true => opening.part("gate", async || open::own_gate(config, within).await).await?,
            false => Some(open::idle_gate(config)?),
        };
        if let Some(gate) = &gate {
            opened("gate", open::gate_probe(gate.clone()));
        }
        anyhow::Ok(gate)
    };
    let index = async {
        let index = match with_index {
            true => opening.part("index", async || open::own_index(config).await).await?,
            false => None,
        };
        if let Some(index) = &index {
            opened("index", open::index_probe(index.clone(), config));
        }
        anyhow::Ok(index)
    };
    let ((records, gate_there), seen, urls, gate, index) =
        tokio::try_join!(records, seen, urls, gate, index)?;
    let index = match index {
        None if with_index => Some(open::index_with_records(&records)?),
        index => index,
    };
    Ok(Stores {
        seen: seen.unwrap_or_else(|| records.seen_here()),
        urls: urls.unwrap_or_else(|| records.urls_here()),
        gate: gate.or(gate_there).context("no gate was opened; `gate.kind` names none")?,
        records,
        index,
        lock,
    })
}

/// Opens the records of the flow `inventory`, if they are on a server of their own.
pub(crate) async fn shared_urls(
    config: &Config,
    opening: &Opening<'_>,
) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    let within = opening.patience();
    let urls = opening.part("inventory", async || open::shared_urls(config, within).await).await?;
    if let Some(urls) = &urls {
        opening.readiness.opened("inventory", open::urls_probe(urls.clone()));
    }
    Ok(urls)
}

/// Declares queues as soon as the broker is there.
pub(crate) async fn declare(
    broker: &Arc<dyn Broker>,
    queues: &[crawlway_broker::QueueSpec],
    opening: &Opening<'_>,
) -> anyhow::Result<()> {
    let open = async || {
        let declaring = broker.declare(queues);
        tokio::pin!(declaring);
        loop {
            tokio::select! {
                declared = &mut declaring => return Ok(declared?),
                // A declaration waits for a connection; why there is none can be said meanwhile.
                () = tokio::time::sleep(PAUSES.0) => {
                    if let Err(error) = broker.reachable() {
                        opening.readiness.failed("broker", error.to_string());
                    }
                }
            }
        }
    };
    opening.part("broker", open).await?;
    opening.readiness.opened("broker", Probe::broker(broker.clone()));
    Ok(())
}

/// Opens the records of a gateway for the flow `inventory` alone; none if it was asked to end meanwhile.
pub(crate) async fn urls_alone(
    config: &Config,
    opening: &Opening<'_>,
) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    let urls = async {
        let urls = shared_urls(config, opening).await?;
        urls.context("the inventory is not on a server of its own; set `inventory.store`")
    };
    unless_asked_to_end(urls.await)
}

/// Whether waiting can help.
fn may_pass(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(BrokerError::Unavailable { .. }))
            || matches!(cause.downcast_ref(), Some(GateError::Unavailable { .. }))
            || cause.downcast_ref::<StoreError>().is_some_and(StoreError::is_transient)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn only_what_can_come_back_is_waited_for() {
        let away = StoreError::Unavailable { detail: "refused".to_owned() };
        assert!(may_pass(&Err::<(), _>(away).context("cannot open the records").unwrap_err()));
        assert!(may_pass(&GateError::Unavailable { detail: "refused".to_owned() }.into()));
        assert!(may_pass(&BrokerError::Unavailable { detail: "refused".to_owned() }.into()));
        assert!(!may_pass(&StoreError::Invalid { problem: "the address is none".to_owned() }.into()));
        assert!(!may_pass(&anyhow!("`records.postgresql.url` is empty; set it")));
    }
}
