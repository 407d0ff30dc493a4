//! Opening of the stores and the broker: once, or with retries where servers may start in any order. Readiness lists what is
//! missing meanwhile.

use crate::{
    config::Config,
    flows::{Store, StoreSet},
    open::{self, StageLeases, StageTaken},
    process::Handles,
    role::{FlowRole, stage_name},
};
use crawlway_broker::{BrokerError, QueueBackend, QueueSpec};
use crawlway_clock::Backoff;
use crawlway_flow::{Shutdown, StagePause};
use crawlway_gateway::{Probe, Readiness};
use crawlway_store::{RateLimiterError, StoreError};
use std::{fmt, sync::Arc, time::Duration};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const BACKOFF: Backoff = Backoff::new(FIRST_DELAY, Duration::from_secs(10));

/// Name of the leases of stages among the dependencies.
pub(crate) const STAGE_LEASE: &str = "stage_lease";

/// How dependencies are opened.
pub(crate) struct Opening<'a> {
    /// Readiness, updated with each failure and success.
    pub(crate) readiness: &'a Readiness,
    /// Stop that ends the retries; without it a missing dependency is an error.
    pub(crate) until: Option<&'a Shutdown>,
}

/// A stop was requested before everything was open.
#[derive(Debug)]
struct StopRequested;

impl fmt::Display for StopRequested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stop was requested")
    }
}

impl std::error::Error for StopRequested {}

/// `None` if a stop was requested meanwhile.
pub(crate) fn unless_stopped<T>(opened: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.is::<StopRequested>() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Opening<'_> {
    /// Opens one dependency.
    pub(crate) async fn open_one<T>(
        &self,
        name: &str,
        open: impl AsyncFn() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.open_several(&[name], open).await
    }

    /// Opens dependencies that share one backend.
    async fn open_several<T>(
        &self,
        names: &[&str],
        open: impl AsyncFn() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let with_readiness = async || {
            let opened = open().await;
            if let Err(error) = &opened {
                for name in names {
                    self.readiness.failed(name, format!("{error:#}"));
                }
            }
            opened
        };
        self.retry(with_readiness).await
    }

    /// Retries with back-off while the error is transient.
    pub(crate) async fn retry<T>(&self, open: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let Some(stop) = self.until else { return open().await };
        let mut delay = Duration::ZERO;
        loop {
            let opened = tokio::select! {
                opened = open() => opened,
                _ = stop.requested() => return Err(StopRequested.into()),
            };
            let error = match opened {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            if !is_transient(&error) {
                return Err(error);
            }
            tracing::warn!(error = format!("{error:#}"), "a dependency is unavailable; retrying");
            delay = BACKOFF.after(delay);
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = stop.requested() => return Err(StopRequested.into()),
            }
        }
    }

    /// Connect timeout of one attempt; `None` for that of the settings.
    fn connect_timeout(&self) -> Option<Duration> {
        self.until.map(|_| Duration::ZERO)
    }
}

/// Opens the stores that a process needs, all at the same time, so that readiness lists every missing server. Each handle is
/// set as soon as its store is open.
pub(crate) async fn stores(
    config: &Config,
    needs: &StoreSet,
    handles: &Handles,
    opening: &Opening<'_>,
) -> anyhow::Result<()> {
    let stores = &handles.stores;
    let with_records: StoreSet =
        needs.iter().copied().filter(|store| open::is_with_records(config, *store)).collect();
    let is_own = |store| needs.contains(&store) && !with_records.contains(&store);
    let within = opening.connect_timeout();
    let opened = |name: &str, probe: Probe| opening.readiness.opened(name, probe);
    let has_own_tokens = config.has_tokens_in_redis();
    let needs_tokens = stores.tokens.absent_reason().is_none();
    let records = async {
        if with_records.is_empty() {
            // A gateway whose records are otherwise those of other processes.
            if needs_tokens && !has_own_tokens {
                stores.tokens.set(opening.retry(async || open::records(config, within).await).await?.tokens);
            }
            return Ok(());
        }
        let open = async || {
            let records = open::records(config, within).await?;
            records.take_back(config).await?;
            crawlway_flows::search::migrate_crawl_names(&*records.frontier).await?;
            Ok(records)
        };
        // Stores in the same database are open with the records.
        let names: Vec<&str> = open::dependency_names(&with_records);
        let records = opening.open_several(&names, open).await?;
        for name in &names {
            opened(name, records.probe(config));
        }
        if with_records.contains(&Store::RateLimiter) {
            let open = async || open::rate_limiter_with_records(config, &records).await;
            stores.rate_limiter.set(opening.open_one("rate_limiter", open).await?);
        }
        if with_records.contains(&Store::Index) {
            stores.index.set(open::index_with_records(&records)?);
        }
        if with_records.contains(&Store::Seen) {
            stores.seen.set(records.seen());
        }
        if with_records.contains(&Store::Inventory) {
            stores.inventory.set(records.urls());
        }
        if with_records.contains(&Store::Requests) {
            stores.requests.set(records.requests(config));
        }
        stores.frontier.set(records.frontier.clone());
        stores.trails.set(records.trails.clone());
        if !has_own_tokens {
            stores.tokens.set(records.tokens.clone());
        }
        stores.records.set(Arc::new(records));
        Ok(())
    };
    let seen = async {
        if is_own(Store::Seen) {
            let seen = opening.open_one("seen", async || open::own_seen(config, within).await).await?;
            opened("seen", open::seen_probe(seen.clone()));
            stores.seen.set(seen);
        }
        anyhow::Ok(())
    };
    let inventory = async {
        if is_own(Store::Inventory) {
            let urls = opening.open_one("inventory", async || open::own_urls(config, within).await).await?;
            opened("inventory", open::urls_probe(urls.clone()));
            stores.inventory.set(urls);
        }
        anyhow::Ok(())
    };
    let requests = async {
        if is_own(Store::Requests) {
            let open = async || open::own_requests(config, within).await;
            let requests = opening.open_one("requests", open).await?;
            opened("requests", open::requests_probe(requests.clone()));
            stores.requests.set(requests);
        }
        anyhow::Ok(())
    };
    let tokens = async {
        if needs_tokens && has_own_tokens {
            stores.tokens.set(opening.retry(async || open::own_tokens(config, within).await).await?);
        }
        anyhow::Ok(())
    };
    let rate_limiter = async {
        if is_own(Store::RateLimiter) {
            let open = async || open::own_rate_limiter(config, within).await;
            let rate_limiter = opening.open_one("rate_limiter", open).await?;
            opened("rate_limiter", open::rate_limiter_probe(rate_limiter.clone()));
            stores.rate_limiter.set(rate_limiter);
        }
        anyhow::Ok(())
    };
    let index = async {
        if is_own(Store::Index) {
            let index = opening.open_one("index", async || open::own_index(config).await).await?;
            opened("index", open::index_probe(index.clone(), config));
            stores.index.set(index);
        }
        anyhow::Ok(())
    };
    tokio::try_join!(records, seen, inventory, requests, tokens, rate_limiter, index)?;
    Ok(())
}

/// Declares queues of one broker as soon as it is available. `name` is that of the broker among the dependencies.
pub(crate) async fn declare(
    broker: &Arc<dyn QueueBackend>,
    name: &str,
    queues: &[QueueSpec],
    opening: &Opening<'_>,
) -> anyhow::Result<()> {
    let open = async || {
        let declaring = broker.declare(queues);
        tokio::pin!(declaring);
        loop {
            tokio::select! {
                declared = &mut declaring => return Ok(declared?),
                // A declaration waits for a connection; readiness gets the reason meanwhile.
                () = tokio::time::sleep(FIRST_DELAY) => {
                    let reachable = queues.iter().try_for_each(|queue| broker.reachable_for(&queue.name));
                    if let Err(error) = reachable {
                        opening.readiness.failed(name, error.to_string());
                    }
                }
            }
        }
    };
    opening.open_one(name, open).await
}

/// Takes the leases of the stages of a flow, and renews them until the process ends. A stage without its lease is paused.
pub(crate) async fn leases(
    leases: &Arc<StageLeases>,
    flow: &FlowRole,
    opening: &Opening<'_>,
    pause: &StagePause,
) -> anyhow::Result<()> {
    for stage in flow.stages.iter().filter(|stage| leases.has(flow.module.name(), stage)) {
        let name = stage_name(flow.module.name(), stage);
        let taken_at = opening.open_one(STAGE_LEASE, async || leases.acquire(&name).await).await?;
        tokio::spawn(leases.clone().keep(name, stage, taken_at, pause.clone()));
    }
    Ok(())
}

/// Whether a retry can succeed.
fn is_transient(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(BrokerError::Unavailable { .. }))
            || cause.is::<StageTaken>()
            || matches!(cause.downcast_ref(), Some(RateLimiterError::Unavailable { .. }))
            || cause.downcast_ref::<StoreError>().is_some_and(StoreError::is_transient)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn only_unavailable_dependencies_are_retried() {
        let away = StoreError::Unavailable { detail: "refused".to_owned() };
        assert!(is_transient(&Err::<(), _>(away).context("cannot open the records").unwrap_err()));
        assert!(is_transient(&RateLimiterError::Unavailable { detail: "refused".to_owned() }.into()));
        assert!(is_transient(&BrokerError::Unavailable { detail: "refused".to_owned() }.into()));
        assert!(!is_transient(&StoreError::Invalid { problem: "the address is none".to_owned() }.into()));
        assert!(!is_transient(&anyhow!("`records.postgresql.url` is empty; set it")));
    }
}
