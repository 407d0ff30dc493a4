//! HTTP endpoints of a process: the gateway, or only health and metrics. They answer before the stores are open, and report
//! what is missing.

use crate::{
    config::Config,
    presence::{self, Presence},
    worker::{POLL_INTERVAL, Worker, worker_name},
};
use anyhow::{Context, bail};
use crawlway_broker::QueueBackend;
use crawlway_clock::Clock;
use crawlway_fetch::AllowedRange;
use crawlway_flow::Shutdown;
use crawlway_flows::search::QueuesWithFrontier;
use crawlway_gateway::{
    ConnectionLimits, CrawlDefaults, GatewayContext, InventoryService, Listener, Readiness, RouterSwitch,
    health_router, inventory_router, router, starting_health_router, starting_router,
};
use crawlway_store::UrlRecords;
use std::{net::SocketAddr, sync::Arc};
use tokio::task::JoinHandle;

/// Running gateway. Once complete, its address is in `gateway.json` until this is dropped.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) inventory: InventoryService,
    switch: RouterSwitch,
    server: JoinHandle<()>,
    presence: Option<Presence>,
}

impl Serving {
    /// Serves the stores of the worker until a stop is requested.
    pub(crate) fn start(
        listening: Listener,
        worker: &Worker,
        config: &Config,
        allow: Vec<AllowedRange>,
        stop: &Shutdown,
    ) -> anyhow::Result<Self> {
        let mut serving = Self::begin(listening, &worker.broker, config, allow, &worker.readiness, stop)?;
        serving.complete(worker, config, stop)?;
        Ok(serving)
    }

    /// Serves health and the flow `inventory` while other stores are still missing.
    pub(crate) fn begin(
        listening: Listener,
        broker: &Arc<dyn QueueBackend>,
        config: &Config,
        allow: Vec<AllowedRange>,
        readiness: &Readiness,
        stop: &Shutdown,
    ) -> anyhow::Result<Self> {
        let address = listening.address();
        let options = config.inventory.options(config.fetch.guard(&allow)?);
        let inventory = InventoryService::new(broker.clone(), options, Clock::System, stop.clone());
        let options = config.gateway.options(address);
        let switch = RouterSwitch::new(starting_router(inventory.clone(), readiness.clone(), options));
        let limits = ConnectionLimits { drain: config.search.drain(), ..ConnectionLimits::default() };
        let router = switch.clone().into_router();
        let (serve, pending) = (listening.serve(router, limits, stop.clone()), inventory.clone());
        let server = tokio::spawn(async move {
            serve.await;
            pending.flush().await;
        });
        Ok(Self { address, inventory, switch, server, presence: None })
    }

    /// Serves all routes from now on, with the stores of the worker.
    pub(crate) fn complete(
        &mut self,
        worker: &Worker,
        config: &Config,
        stop: &Shutdown,
    ) -> anyhow::Result<()> {
        self.inventory.start_accepting();
        self.inventory.set_records(worker.urls.clone());
        worker.readiness.started(worker.failure_check());
        let context = gateway_context(worker, self.inventory.clone(), config, stop);
        self.switch.set(router(context, config.gateway.options(self.address)));
        self.presence = Some(presence::announce(&config.data_dir, self.address)?);
        Ok(())
    }

    /// Serves the flow `inventory` only. Without `gateway.json`, since the other commands need another process.
    pub(crate) fn complete_inventory_only(
        &self,
        urls: Arc<dyn UrlRecords>,
        readiness: &Readiness,
        config: &Config,
    ) {
        self.inventory.start_accepting();
        self.inventory.set_records(urls);
        // No stages that could fail.
        readiness.started(|| None);
        let options = config.gateway.options(self.address);
        self.switch.set(inventory_router(self.inventory.clone(), readiness.clone(), options));
    }

    /// Base URL, such as `http://127.0.0.1:8081`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the end of the graceful shutdown.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        self.server.await.context("the gateway panicked")
    }

    /// Waits for the end of the graceful shutdown. A failed stage is an error.
    pub(crate) async fn until_the_end(mut self, worker: &Worker, stop: &Shutdown) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                ended = &mut self.server => return ended.context("the gateway panicked"),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            if worker.has_failed() {
                stop.request();
                self.server.await.context("the gateway panicked")?;
                bail!("a stage failed; see the log");
            }
        }
    }
}

/// Endpoint for health and metrics of a process without a gateway.
pub(crate) struct Health {
    address: SocketAddr,
    switch: RouterSwitch,
    server: JoinHandle<()>,
}

impl Health {
    /// Serves until a stop is requested, also while dependencies are missing.
    pub(crate) fn begin(
        listening: Listener,
        config: &Config,
        readiness: &Readiness,
        stop: &Shutdown,
    ) -> Self {
        let address = listening.address();
        let options = config.gateway.options(address);
        let switch = RouterSwitch::new(starting_health_router(readiness.clone(), options));
        let router = switch.clone().into_router();
        let server = tokio::spawn(listening.serve(router, ConnectionLimits::default(), stop.clone()));
        Self { address, switch, server }
    }

    /// Includes the stages from now on.
    pub(crate) fn complete(&self, worker: &Worker, config: &Config, stop: &Shutdown) -> anyhow::Result<()> {
        worker.readiness.started(worker.failure_check());
        let options = config.inventory.options(config.fetch.guard(&[])?);
        // For its metrics only; no URLs are accepted here.
        let inventory = InventoryService::new(worker.broker.clone(), options, Clock::System, stop.clone());
        let context = gateway_context(worker, inventory, config, stop);
        self.switch.set(health_router(&context, config.gateway.options(self.address)));
        Ok(())
    }

    /// URL such as `http://127.0.0.1:9464/metrics`.
    pub(crate) fn metrics_url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Waits for the end of the graceful shutdown.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        self.server.await.context("the endpoint for health and metrics panicked")
    }
}

fn gateway_context(
    worker: &Worker,
    inventory: InventoryService,
    config: &Config,
    stop: &Shutdown,
) -> GatewayContext {
    GatewayContext {
        queues: Arc::new(QueuesWithFrontier::new(worker.broker.clone(), worker.records.frontier.clone())),
        frontier: worker.records.frontier.clone(),
        seen: worker.seen.clone(),
        rate_limiter: worker.rate_limiter.clone(),
        trails: worker.records.trails.clone(),
        index: worker.index.clone(),
        inventory,
        fetcher: worker.fetcher.clone(),
        request: worker.request.clone(),
        crawl_defaults: CrawlDefaults {
            recrawl_after: config.search.recrawl_after(),
            traps: config.search.traps(),
        },
        wake: worker.wake.clone(),
        meters: worker.meters.clone(),
        readiness: worker.readiness.clone(),
        clock: Clock::System,
        worker: worker_name(),
        stop: stop.clone(),
    }
}
