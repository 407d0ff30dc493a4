//! The flow `search` at work in this process: everything it needs, opened, and how it ends.

use crate::{config::Config, open};
use anyhow::Context;
use crawlway_broker::{Broker, QueueSpec};
use crawlway_clock::Clock;
use crawlway_fetch::{Allowed, Fetcher, Request, Setup};
use crawlway_flow::{Meter, Parts, Stop};
use crawlway_flows::search::{FLOW, Search, Stages, Stores, crawler_queue};
use crawlway_store::PageIndex;
use std::{process, sync::Arc};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

/// What the flow runs on.
pub(crate) struct Worker {
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) records: open::Records,
    pub(crate) index: Arc<dyn PageIndex>,
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) request: Request,
    pub(crate) queue: QueueSpec,
    pub(crate) meters: Vec<(&'static str, Arc<Meter>)>,
    pub(crate) wake: Arc<dyn Fn() + Send + Sync>,
    running: JoinHandle<()>,
    stop: Stop,
}

/// Who this process is, in trails.
pub(crate) fn worker_name() -> Arc<str> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "localhost" } else { host };
    format!("{host}:{}", process::id()).into()
}

impl Worker {
    /// Opens everything and starts the stages. They stop when asked to.
    pub(crate) async fn start(
        config: &Config,
        allow: &[Allowed],
        robots: bool,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let broker = open::broker(config)?;
        let records = open::records(config).await?;
        let index = open::page_index(config).await?;
        let mut setup = Setup::new(open::lasting_gate(config)?);
        setup.guard = config.fetch.guard(allow)?;
        let fetcher = Arc::new(Fetcher::new(setup)?);
        // The page is put in for each; any will do here.
        let any = "http://localhost/".parse().context("a URL")?;
        let request = Request { robots, ..config.fetch.request(any)? };
        let spec = config.queue.spec(crawler_queue());
        let queue = spec.clone().prefetch(spec.prefetch.max(config.search.least_prefetch()));
        broker.declare(std::slice::from_ref(&queue)).await?;
        let parts = Parts {
            flow: FLOW,
            broker: broker.clone(),
            trails: records.trails.clone(),
            clock: Clock::System,
            worker: worker_name(),
        };
        let stores = Stores {
            frontier: records.frontier.clone(),
            seen: records.seen.clone(),
            index: Some(index.clone()),
        };
        let settings = config.search.settings(request.clone());
        let stages = Stages { crawl: true, index: true };
        let search = Search::new(parts, &stores, fetcher.clone(), &queue, &settings, stages, stop.clone());
        let (meters, wake) = (search.flow().meters(), Arc::new(search.wake()));
        let running = tokio::spawn(search.run());
        Ok(Self { broker, records, index, fetcher, request, queue, meters, wake, running, stop })
    }

    /// How many pages wait to be indexed, or are being indexed.
    pub(crate) async fn to_be_indexed(&self) -> anyhow::Result<u64> {
        let depth = self.broker.depth(&self.queue.name).await?;
        Ok(depth.waiting() + depth.in_flight)
    }

    /// Whether the stages have ended by themselves, which they should not.
    pub(crate) fn broke(&self) -> bool {
        self.running.is_finished() && !self.stop.is_requested()
    }

    /// Says, whenever it is asked, why the stages have ended by themselves, if they have.
    pub(crate) fn watch(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let (running, stop) = (self.running.abort_handle(), self.stop.clone());
        move || {
            let broke = running.is_finished() && !stop.is_requested();
            broke.then(|| "they ended by themselves; the log says why".to_owned())
        }
    }

    /// Has the stages finish what is in flight, and closes everything.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.stop.request();
        let ran = self.running.await;
        let closed = self.broker.close().await;
        let index = self.index.close().await;
        self.records.close().await;
        ran.context("the stages broke")?;
        closed?;
        index?;
        Ok(())
    }
}

/// A stop that SIGTERM and Ctrl-C request. A second Ctrl-C ends the process at once.
pub(crate) fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?;
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        asked.request();
        interrupt.recv().await;
        process::exit(130);
    });
    Ok(stop)
}
