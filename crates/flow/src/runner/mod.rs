//! The runner: receives items from a source, lets the stage process them, and finishes them.
//!
//! ```text
//!            receive.rs  decode.rs   run.rs        finish.rs: many items together
//!           ┌─────────┐ ┌────────┐ ┌────────┐ ┌───────────────────────────────────────┐
//!  source ─▶│ receive ├▶│ decode ├▶│  run   ├▶│ publish ─▶ effects ─▶ trail ─▶ settle ├─▶ source
//!           └─────────┘ └────────┘ └────────┘ └───────────────────────────────────────┘
//!            engine.rs: leases of all items in flight are extended until they are settled
//! ```
//!
//! Two bounds hold: [`Settings::concurrency`] items run, and [`Settings::finish_batch`] more may wait to be finished. When
//! finishing is slow (a full queue, a database that is down), receiving stops.

mod decode;
mod effects;
mod engine;
mod finish;
mod in_flight;
mod outage;
mod panics;
mod publish;
mod receive;
mod run;
mod settings;
mod settle;
mod trail;

pub use settings::{Backpressure, MAX_DEFER, Settings};

use crate::{Shutdown, SoloLock, Source, Stage, StageMetrics, StagePause};
use crawlway_broker::{Broker, QueueAdmin};
use crawlway_clock::Clock;
use crawlway_store::Trails;
use engine::Engine;
use futures::future::BoxFuture;
use std::{fmt, sync::Arc};
use tokio::task::JoinSet;

/// Services that all stages of a flow share.
#[derive(Debug, Clone)]
pub struct FlowServices {
    /// Name of the flow in trails and metrics.
    pub flow: &'static str,
    /// Broker of the queues.
    pub broker: Arc<dyn Broker>,
    /// Depth of the queues, for back-pressure.
    pub queues: Arc<dyn QueueAdmin>,
    /// Trail store.
    pub trails: Arc<dyn Trails>,
    /// Clock.
    pub clock: Clock,
    /// Name of this worker process in trails.
    pub worker: Arc<str>,
    /// Lock for solo runs, one for all flows of the process.
    pub solo_lock: SoloLock,
    /// Stages of the flow that are paused.
    pub pause: StagePause,
}

/// Stages wired to their sources. Nothing runs before [`run`](Flow::run).
pub struct Flow {
    services: FlowServices,
    stop: Shutdown,
    stages: Vec<BoxFuture<'static, ()>>,
    metrics: Vec<(&'static str, Arc<StageMetrics>)>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("services", &self.services)
            .field("metrics", &self.metrics)
            .finish_non_exhaustive()
    }
}

impl Flow {
    /// Flow without stages, with its shutdown signal.
    pub fn new(services: FlowServices, stop: Shutdown) -> Self {
        Self { services, stop, stages: Vec::new(), metrics: Vec::new() }
    }

    /// Wires a stage to its source.
    pub fn stage<S: Stage>(mut self, stage: S, source: impl Source<S::Note>, settings: Settings) -> Self {
        let name = stage.name();
        let metrics = Arc::new(StageMetrics::default());
        let engine =
            Engine::new(stage, source, settings, self.services.clone(), self.stop.clone(), metrics.clone());
        self.stages.push(Box::pin(engine.run()));
        self.metrics.push((name, metrics));
        self
    }

    /// Metrics of each stage, by stage name.
    pub fn metrics(&self) -> Vec<(&'static str, Arc<StageMetrics>)> {
        self.metrics.clone()
    }

    /// Runs all stages until a shutdown is requested, then drains: items in flight are finished or handed back.
    pub async fn run(self) -> FlowExit {
        let mut ran = FlowExit::Graceful;
        let mut running: JoinSet<()> = self.stages.into_iter().collect();
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                // Panics of stages are caught, so this is a bug of the runner. The other stages depend on it, so the
                // process must be restarted.
                tracing::error!(flow = self.services.flow, %error, "the runner panicked; shutting down");
                ran = FlowExit::Panicked;
                self.stop.request();
            }
        }
        ran
    }
}

/// Result of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FlowExit {
    /// Graceful shutdown.
    Graceful,
    /// A runner panicked, and the other stages were shut down.
    Panicked,
}
