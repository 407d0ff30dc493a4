//! The gateway in one process with the stages: it listens first, answers for what is there, and is announced when all is.
//! Without it, what is left of it: health and metrics.

use crate::{
    config::Config,
    presence::{self, Presence},
    worker::{LOOK, Worker, worker_name},
};
use anyhow::{Context, bail};
use crawlway_broker::Broker;
use crawlway_clock::Clock;
use crawlway_fetch::Allowed;
use crawlway_flow::Stop;
use crawlway_flows::search::WithFrontier;
use crawlway_gateway::{
    CrawlDefaults, Inventory, Limits, Listening, Parts, Readiness, Switch, health_router, inventory_router,
    router, starting, starting_health_router,
};
use crawlway_store::UrlRecords;
use std::{net::SocketAddr, sync::Arc};
use tokio::task::JoinHandle;

/// A gateway that answers. It is announced in the data directory from its completion on, for as long as this lives.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    pub(crate) inventory: Inventory,
    switch: Switch,
    answering: JoinHandle<()>,
    presence: Option<Presence>,
}

impl Serving {
    /// Answers from here on, on what the worker has opened, until the stop is requested.
    pub(crate) fn start(
        listening: Listening,
        worker: &Worker,
        config: &Config,
        allow: Vec<Allowed>,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let mut serving = Self::begin(listening, &worker.broker, config, allow, &worker.readiness, stop)?;
        serving.complete(worker, config, stop)?;
        Ok(serving)
    }

    /// Answers what can be answered without the rest, and says what is missing.
    pub(crate) fn begin(
        listening: Listening,
        broker: &Arc<dyn Broker>,
        config: &Config,
        allow: Vec<Allowed>,
        readiness: &Readiness,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let address = listening.address();
        let options = config.inventory.options(config.fetch.guard(&allow)?);
        let inventory = Inventory::new(broker.clone(), options, Clock::System, stop.clone());
        let options = config.gateway.options(address);
        let switch = Switch::new(starting(inventory.clone(), readiness.clone(), options));
        let limits = Limits { drain: config.search.drain(), ..Limits::default() };
        let router = switch.clone().into_router();
        let (serve, accepted) = (listening.serve(router, limits, stop.clone()), inventory.clone());
        let answering = tokio::spawn(async move {
            serve.await;
            accepted.flush().await;
        });
        Ok(Self { address, inventory, switch, answering, presence: None })
    }

    /// Answers everything from here on, on what the worker has opened.
    pub(crate) fn complete(&mut self, worker: &Worker, config: &Config, stop: &Stop) -> anyhow::Result<()> {
        self.inventory.queue_is_declared();
        self.inventory.read_from(worker.urls.clone());
        worker.readiness.started(worker.watch());
        let parts = parts(worker, self.inventory.clone(), config, stop);
        self.switch.set(router(parts, config.gateway.options(self.address)));
        self.presence = Some(presence::announce(&config.data_dir, self.address)?);
        Ok(())
    }

    /// Answers for the flow `inventory` from here on, and for nothing else. It is not announced: what else commands ask
    /// about is another process's.
    pub(crate) fn complete_alone(&self, urls: Arc<dyn UrlRecords>, readiness: &Readiness, config: &Config) {
        self.inventory.queue_is_declared();
        self.inventory.read_from(urls);
        // It runs no stages that could break.
        readiness.started(|| None);
        let options = config.gateway.options(self.address);
        self.switch.set(inventory_router(self.inventory.clone(), readiness.clone(), options));
    }

    /// `http://127.0.0.1:8081`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns once it was asked to end and has.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        self.answering.await.context("the gateway broke")
    }

    /// Returns once it was asked to end and has, or once the stages have broken, which is an error.
    pub(crate) async fn until_the_end(mut self, worker: &Worker, stop: &Stop) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                ended = &mut self.answering => return ended.context("the gateway broke"),
                () = tokio::time::sleep(LOOK) => {}
            }
            if worker.broke() {
                stop.request();
                self.answering.await.context("the gateway broke")?;
                bail!("the stages ended by themselves; the log says why");
            }
        }
    }
}

/// Health and metrics of a process without a gateway.
pub(crate) struct Health {
    address: SocketAddr,
    switch: Switch,
    answering: JoinHandle<()>,
}

impl Health {
    /// Answers from here on, until the stop is requested, also while what the process needs is missing.
    pub(crate) fn begin(listening: Listening, config: &Config, readiness: &Readiness, stop: &Stop) -> Self {
        let address = listening.address();
        let options = config.gateway.options(address);
        let switch = Switch::new(starting_health_router(readiness.clone(), options));
        let router = switch.clone().into_router();
        let answering = tokio::spawn(listening.serve(router, Limits::default(), stop.clone()));
        Self { address, switch, answering }
    }

    /// Answers for the stages, too, from here on.
    pub(crate) fn complete(&self, worker: &Worker, config: &Config, stop: &Stop) -> anyhow::Result<()> {
        worker.readiness.started(worker.watch());
        let options = config.inventory.options(config.fetch.guard(&[])?);
        // Only counted for; nothing is accepted here.
        let inventory = Inventory::new(worker.broker.clone(), options, Clock::System, stop.clone());
        let parts = parts(worker, inventory, config, stop);
        self.switch.set(health_router(&parts, config.gateway.options(self.address)));
        Ok(())
    }

    /// `http://127.0.0.1:9464/metrics`
    pub(crate) fn metrics_url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Returns once what was asked before the stop is answered.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        self.answering.await.context("answering for health and metrics broke")
    }
}

fn parts(worker: &Worker, inventory: Inventory, config: &Config, stop: &Stop) -> Parts {
    Parts {
        broker: Arc::new(WithFrontier::new(worker.broker.clone(), worker.records.frontier.clone())),
        frontier: worker.records.frontier.clone(),
        seen: worker.seen.clone(),
        gate: worker.gate.clone(),
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
