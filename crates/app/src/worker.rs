//! The stages in this process: running, drain and close. [`startup`] opens the stores and starts each flow.

mod declare;
mod startup;

pub(crate) use startup::{Overrides, Process};

use crate::{
    config::Config,
    crash_loop::Restarts,
    open::StageLeases,
    opening::Opening,
    process::{Handles, OpenStores},
    role::Role,
};
use anyhow::{Context, bail};
use crawlway_fetch::Fetcher;
use crawlway_flow::Shutdown;
use crawlway_flows::search::crawler_queue;
use crawlway_lock::DirectoryLock;
use crawlway_store::{CrawlId, frontier::CrawlState};
use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

/// Interval at which the stages are checked for a failure.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Running stages of a process, with its broker and stores.
pub(crate) struct Worker {
    pub(crate) handles: Handles,
    pub(crate) stores: OpenStores,
    running: Vec<JoinHandle<()>>,
    /// Retention job, if the process has records.
    retention: Option<JoinHandle<()>>,
    /// Set when a stage fails; the other stages then stop as after a stop request.
    failed: Arc<AtomicBool>,
    stop: Shutdown,
    /// Other crawls, paused while this process runs.
    paused_crawls: Vec<CrawlId>,
    /// Crash-loop detection, if this process alone runs items on the data directory.
    restarts: Option<Arc<Restarts>>,
    leases: Arc<StageLeases>,
    /// Lock of the data directory, if the records are embedded.
    _lock: Option<DirectoryLock>,
}

impl Worker {
    /// Opens the stores and starts the stages, until a stop is requested. A missing server is an error.
    pub(crate) async fn start(
        config: &Config,
        role: &Role,
        overrides: Overrides,
        stop: Shutdown,
    ) -> anyhow::Result<Self> {
        let process = Process::new(config, role, overrides, false, stop).await?;
        let readiness = process.handles.readiness.clone();
        let started = process.start(&Opening { readiness: &readiness, until: None }).await?;
        started.context("a stop was requested")
    }

    /// Number of pages that are pending or in flight at the index stage; only those in flight while the queue is paused.
    pub(crate) async fn to_be_indexed(&self) -> anyhow::Result<u64> {
        let depth = self.handles.broker.depth(&crawler_queue()).await?;
        if depth.paused {
            return Ok(depth.in_flight);
        }
        Ok(depth.pending() + depth.in_flight)
    }

    /// HTTP client of the stages.
    pub(crate) fn fetcher(&self) -> anyhow::Result<Arc<Fetcher>> {
        self.handles.fetcher.get().context("this process fetches nothing")
    }

    /// Whether a stage has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
            || (self.running.iter().any(JoinHandle::is_finished) && !self.stop.is_requested())
    }

    /// Waits for the stop. A failed stage is an error.
    pub(crate) async fn until_the_end(&self, stop: &Shutdown) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                _ = stop.requested() => return Ok(()),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            if self.has_failed() {
                stop.request();
                bail!("a stage failed; see the log");
            }
        }
    }

    /// Check for readiness: the reason if a stage has failed.
    pub(crate) fn failure_check(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let running: Vec<_> = self.running.iter().map(JoinHandle::abort_handle).collect();
        let (failed, stop) = (self.failed.clone(), self.stop.clone());
        move || {
            let has_ended = running.iter().any(|stages| stages.is_finished());
            let has_failed = failed.load(Ordering::Relaxed) || (has_ended && !stop.is_requested());
            has_failed.then(|| "a stage failed; see the log".to_owned())
        }
    }

    /// Graceful shutdown of the stages. The stores stay open.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        self.stop.request();
        for stages in &mut self.running {
            stages.await.context("a stage panicked")?;
        }
        if self.failed.load(Ordering::Relaxed) {
            bail!("a stage failed; see the log");
        }
        Ok(())
    }

    /// Closes the stores. To be called after [`drain`](Self::drain).
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        if let Some(frontier) = &self.stores.frontier {
            for crawl in &self.paused_crawls {
                // The next worker continues them.
                frontier.set_state(crawl, CrawlState::Running).await?;
            }
        }
        if let Some(retention) = self.retention {
            retention.abort();
        }
        self.leases.release().await;
        let closed = self.handles.broker.close().await;
        let index = match &self.stores.index {
            Some(index) => index.close().await,
            None => Ok(()),
        };
        if let Some(records) = self.handles.stores.records.get() {
            records.close().await;
        }
        if let Some(restarts) = self.restarts {
            restarts.shut_down();
        }
        closed?;
        index?;
        Ok(())
    }
}

/// Stop that SIGTERM, SIGHUP and Ctrl-C request. The second signal returns items in flight to their queues instead of finishing
/// them; the third ends the process like a crash.
pub(crate) fn stop_on_signals() -> anyhow::Result<Shutdown> {
    let stop = Shutdown::default();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let requested = stop.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        next().await;
        requested.request();
        next().await;
        requested.request_immediate();
        next().await;
        process::exit(130);
    });
    Ok(stop)
}
