//! HTTP endpoint of a process: the gateway, or only health and metrics. It answers before the stores are open, and reports what
//! is missing.

use crate::{
    config::Config,
    gateway_file::{self, Presence},
    process::Handles,
    role::Role,
    worker::{POLL_INTERVAL, Worker},
};
use anyhow::{Context, bail};
use crawlway_flow::Shutdown;
use crawlway_gateway::{ConnectionLimits, FlowRoutes, Listener, health_router, router};
use std::net::SocketAddr;
use tokio::task::JoinHandle;

/// Running HTTP endpoint.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    server: JoinHandle<()>,
    /// `gateway.json` with the address, until this is dropped.
    presence: Option<Presence>,
}

impl Serving {
    /// Serves the gateway of a process until a stop is requested, also while dependencies are missing.
    pub(crate) fn gateway(listening: Listener, handles: &Handles, config: &Config, role: &Role) -> Self {
        let address = listening.address();
        let mut flows: Vec<_> = role.flows.iter().map(|flow| flow.module.routes(handles)).collect();
        flows.push(FlowRoutes::blobs(handles.blobs.clone()));
        let router = router(handles.gateway_context(config, role), flows, config.gateway.options(address));
        let limits = ConnectionLimits { drain: config.search.drain(), ..ConnectionLimits::default() };
        let (serve, pending) =
            (listening.serve(router, limits, handles.stop.clone()), handles.inventory.clone());
        let server = tokio::spawn(async move {
            serve.await;
            pending.flush().await;
        });
        Self { address, server, presence: None }
    }

    /// Serves health and metrics of a process without a gateway until a stop is requested, also while dependencies are missing.
    pub(crate) fn health(listening: Listener, handles: &Handles, config: &Config, role: &Role) -> Self {
        let address = listening.address();
        let router = health_router(&handles.gateway_context(config, role), config.gateway.options(address));
        let serve = listening.serve(router, ConnectionLimits::default(), handles.stop.clone());
        Self { address, server: tokio::spawn(serve), presence: None }
    }

    /// Writes the address of a gateway to `gateway.json` in the data directory, so that commands find it.
    pub(crate) fn announce(&mut self, config: &Config) -> anyhow::Result<()> {
        self.presence = Some(gateway_file::announce(&config.data_dir, self.address)?);
        Ok(())
    }

    /// Base URL, such as `http://127.0.0.1:8081`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the end of the graceful shutdown.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        self.server.await.context("the HTTP endpoint panicked")
    }

    /// Waits for the end of the graceful shutdown. A failed stage is an error.
    pub(crate) async fn until_the_end(mut self, worker: &Worker, stop: &Shutdown) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                ended = &mut self.server => return ended.context("the HTTP endpoint panicked"),
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            if worker.has_failed() {
                stop.request();
                self.server.await.context("the HTTP endpoint panicked")?;
                bail!("a stage failed; see the log");
            }
        }
    }
}
