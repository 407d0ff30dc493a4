//! Opening of the stores and the broker: once, or with retries where servers may start in any order. Readiness lists what is
//! missing meanwhile.

use crate::{config::Config, open, worker::Roles};
use anyhow::Context;
use crawlway_broker::{BrokerError, QueueBackend};
use crawlway_clock::Backoff;
use crawlway_flow::Shutdown;
use crawlway_gateway::{Probe, Readiness};
use crawlway_lock::DirectoryLock;
use crawlway_store::{PageIndex, RateLimiter, RateLimiterError, SeenUrls, StoreError, UrlRecords};
use std::{fmt, sync::Arc, time::Duration};

const FIRST_DELAY: Duration = Duration::from_millis(100);
const BACKOFF: Backoff = Backoff::new(FIRST_DELAY, Duration::from_secs(10));

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
    async fn open_one<T>(&self, name: &str, open: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
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

/// Stores of a process.
pub(crate) struct Stores {
    pub(crate) records: open::Records,
    pub(crate) seen: Arc<dyn SeenUrls>,
    /// Records of the flow `inventory`.
    pub(crate) urls: Arc<dyn UrlRecords>,
    pub(crate) rate_limiter: Arc<dyn RateLimiter>,
    /// Search index, unless pages are written to a file.
    pub(crate) index: Option<Arc<dyn PageIndex>>,
    /// Lock of the data directory, if the records are embedded.
    pub(crate) lock: Option<DirectoryLock>,
}

/// Opens the stores that these stages need, all at the same time, so that readiness lists every missing server.
pub(crate) async fn stores(
    config: &Config,
    runs: Roles,
    with_index: bool,
    opening: &Opening<'_>,
) -> anyhow::Result<Stores> {
    let lock = open::lock_records(config)?;
    let within = opening.connect_timeout();
    let opened = |name: &str, probe: Probe| opening.readiness.opened(name, probe);
    let records = async {
        let open = async || {
            let records = open::records(config, within).await?;
            records.take_back(config).await?;
            Ok(records)
        };
        // Stores in the same database are open with the records.
        let names: Vec<&str> = ["records"].into_iter().chain(open::kept_with_records(config)).collect();
        let records = opening.open_several(&names, open).await?;
        for name in names {
            opened(name, records.probe(config));
        }
        let rate_limiter = match runs.uses_rate_limiter() {
            true => {
                opening
                    .open_one("rate_limiter", async || {
                        open::rate_limiter_with_records(config, &records).await
                    })
                    .await?
            }
            false => None,
        };
        anyhow::Ok((records, rate_limiter))
    };
    // Stores that no stage of this process uses are not opened.
    let seen = async {
        let seen = match runs.uses_seen_urls() {
            true => opening.open_one("seen", async || open::shared_seen(config, within).await).await?,
            false => None,
        };
        if let Some(seen) = &seen {
            opened("seen", open::seen_probe(seen.clone()));
        }
        anyhow::Ok(seen)
    };
    let urls = async {
        match runs.uses_inventory() {
            true => shared_urls(config, opening).await,
            false => anyhow::Ok(None),
        }
    };
    let rate_limiter = async {
        let rate_limiter = match runs.uses_rate_limiter() {
            true => {
                opening
                    .open_one("rate_limiter", async || open::own_rate_limiter(config, within).await)
                    .await?
            }
            false => Some(open::idle_rate_limiter(config)?),
        };
        if let Some(rate_limiter) = &rate_limiter {
            opened("rate_limiter", open::rate_limiter_probe(rate_limiter.clone()));
        }
        anyhow::Ok(rate_limiter)
    };
    let index = async {
        let index = match with_index {
            true => opening.open_one("index", async || open::own_index(config).await).await?,
            false => None,
        };
        if let Some(index) = &index {
            opened("index", open::index_probe(index.clone(), config));
        }
        anyhow::Ok(index)
    };
    let ((records, rate_limiter_with_records), seen, urls, rate_limiter, index) =
        tokio::try_join!(records, seen, urls, rate_limiter, index)?;
    let index = match index {
        None if with_index => Some(open::index_with_records(&records)?),
        index => index,
    };
    Ok(Stores {
        seen: seen.unwrap_or_else(|| records.seen_here()),
        urls: urls.unwrap_or_else(|| records.urls_here()),
        rate_limiter: rate_limiter
            .or(rate_limiter_with_records)
            .context("no rate limiter was opened; check `rate_limit.kind`")?,
        records,
        index,
        lock,
    })
}

/// Opens the records of the flow `inventory`, if they have a server of their own.
pub(crate) async fn shared_urls(
    config: &Config,
    opening: &Opening<'_>,
) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    let within = opening.connect_timeout();
    let urls = opening.open_one("inventory", async || open::shared_urls(config, within).await).await?;
    if let Some(urls) = &urls {
        opening.readiness.opened("inventory", open::urls_probe(urls.clone()));
    }
    Ok(urls)
}

/// Declares queues as soon as the broker is available.
pub(crate) async fn declare(
    broker: &Arc<dyn QueueBackend>,
    queues: &[crawlway_broker::QueueSpec],
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
                    if let Err(error) = broker.reachable() {
                        opening.readiness.failed("broker", error.to_string());
                    }
                }
            }
        }
    };
    opening.open_one("broker", open).await?;
    opening.readiness.opened("broker", Probe::broker(broker.clone()));
    Ok(())
}

/// Opens the records of a gateway that serves the flow `inventory` only; none if a stop was requested meanwhile.
pub(crate) async fn inventory_only(
    config: &Config,
    opening: &Opening<'_>,
) -> anyhow::Result<Option<Arc<dyn UrlRecords>>> {
    let urls = async {
        let urls = shared_urls(config, opening).await?;
        urls.context("the inventory has no server of its own; set `inventory.store`")
    };
    unless_stopped(urls.await)
}

/// Whether a retry can succeed.
fn is_transient(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(BrokerError::Unavailable { .. }))
            || matches!(cause.downcast_ref(), Some(RateLimiterError::Unavailable { .. }))
            || cause.downcast_ref::<StoreError>().is_some_and(StoreError::is_transient)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

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
