//! The gateway at work in one process with the stages: started, announced, and how it ends. Without it, what is left of it:
//! health and metrics.

use crate::{
    config::Config,
    presence::{self, Presence},
    worker::{LOOK, Worker, worker_name},
};
use anyhow::{Context, bail};
use crawlway_clock::Clock;
use crawlway_flow::Stop;
use crawlway_flows::search::{FLOW, WithFrontier};
use crawlway_gateway::{CrawlDefaults, Limits, Listening, Parts, StageMeter, health_router, router};
use std::{net::SocketAddr, sync::Arc};
use tokio::task::JoinHandle;

/// A gateway that answers. It is announced in the data directory for as long as this lives.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    answering: JoinHandle<()>,
    _presence: Presence,
}

impl Serving {
    /// Answers from here on, on what the worker has opened, until the stop is requested.
    pub(crate) fn start(
        listening: Listening,
        worker: &Worker,
        config: &Config,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        let address = listening.address();
        let router = router(parts(worker, config, stop), config.gateway.options(address));
        let limits = Limits { drain: config.search.drain(), ..Limits::default() };
        let presence = presence::announce(&config.data_dir, address)?;
        let answering = tokio::spawn(listening.serve(router, limits, stop.clone()));
        Ok(Self { address, answering, _presence: presence })
    }

    /// `http://127.0.0.1:8081`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
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
    pub(crate) address: SocketAddr,
    answering: JoinHandle<()>,
}

impl Health {
    /// Answers from here on, until the stop is requested.
    pub(crate) fn start(listening: Listening, worker: &Worker, config: &Config, stop: &Stop) -> Self {
        let address = listening.address();
        let router = health_router(parts(worker, config, stop), config.gateway.options(address));
        let answering = tokio::spawn(listening.serve(router, Limits::default(), stop.clone()));
        Self { address, answering }
    }

    /// Returns once what was asked before the stop is answered.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        self.answering.await.context("answering for health and metrics broke")
    }
}

fn parts(worker: &Worker, config: &Config, stop: &Stop) -> Parts {
    let meters = worker.meters.iter();
    Parts {
        broker: Arc::new(WithFrontier::new(worker.broker.clone(), worker.records.frontier.clone())),
        frontier: worker.records.frontier.clone(),
        seen: worker.records.seen.clone(),
        gate: worker.gate.clone(),
        trails: worker.records.trails.clone(),
        index: worker.index.clone(),
        fetcher: worker.fetcher.clone(),
        request: worker.request.clone(),
        crawl_defaults: CrawlDefaults {
            recrawl_after: config.search.recrawl_after(),
            traps: config.search.traps(),
        },
        wake: worker.wake.clone(),
        meters: meters.map(|(stage, meter)| StageMeter { flow: FLOW, stage, meter: meter.clone() }).collect(),
        broken: Arc::new(worker.watch()),
        clock: Clock::System,
        worker: worker_name(),
        stop: stop.clone(),
    }
}
