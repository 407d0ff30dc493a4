//! The runner: takes items from a source, has the stage work on them, and sees them through to the end.
//!
//! Two bounds hold: so many items are worked on at once, and so many more may be waiting to be published, noted and
//! settled. When the latter takes long (a full queue, a database that is down) taking stops by itself. Whatever is held
//! has its lease renewed, wherever it is, until it is settled or handed back.

mod effects;
mod engine;
mod finish;
mod held;
mod outage;
mod panics;
mod publish;
mod settings;
mod take;

pub use settings::{HoldBack, MAX_DEFER, Settings, retry_delay};

use crate::{Exclusive, Meter, Source, Stage, Stop};
use crawlway_broker::Broker;
use crawlway_clock::Clock;
use crawlway_store::Trails;
use engine::Engine;
use futures::future::BoxFuture;
use std::{fmt, sync::Arc};
use tokio::task::JoinSet;

/// What every stage of a flow uses.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The flow's name, in trails and metrics.
    pub flow: &'static str,
    /// What carries the queues.
    pub broker: Arc<dyn Broker>,
    /// Where trails are kept.
    pub trails: Arc<dyn Trails>,
    /// The time.
    pub clock: Clock,
    /// This process, as trails name it.
    pub worker: Arc<str>,
    /// Lets a suspect run alone; one for all flows of the process.
    pub exclusive: Exclusive,
}

/// Stages wired to their sources. Nothing runs before [`run`](Flow::run).
pub struct Flow {
    parts: Parts,
    stop: Stop,
    stages: Vec<BoxFuture<'static, ()>>,
    meters: Vec<(&'static str, Arc<Meter>)>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("parts", &self.parts)
            .field("meters", &self.meters)
            .finish_non_exhaustive()
    }
}

impl Flow {
    /// A flow without stages, which stops when asked to.
    pub fn new(parts: Parts, stop: Stop) -> Self {
        Self { parts, stop, stages: Vec::new(), meters: Vec::new() }
    }

    /// Wires a stage to its source.
    pub fn stage<S: Stage>(mut self, stage: S, source: impl Source<S::Note>, settings: Settings) -> Self {
        let name = stage.name();
        let meter = Arc::new(Meter::default());
        let engine =
            Engine::new(stage, source, settings, self.parts.clone(), self.stop.clone(), meter.clone());
        self.stages.push(Box::pin(engine.run()));
        self.meters.push((name, meter));
        self
    }

    /// The meter of each stage.
    pub fn meters(&self) -> Vec<(&'static str, Arc<Meter>)> {
        self.meters.clone()
    }

    /// Runs all stages until the stop is requested, and then until what is in flight is finished or handed back. Says
    /// whether it ended as it should; a runner that breaks requests the stop itself.
    pub async fn run(self) -> Ran {
        let mut ran = Ran::ToTheEnd;
        let mut running: JoinSet<()> = self.stages.into_iter().collect();
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                // A stage's panics are caught where it runs: this would be a fault of the runner itself. The other
                // stages cannot go on for ever without it, so that the process has to be started again.
                tracing::error!(flow = self.parts.flow, %error, "a runner broke; stopping");
                ran = Ran::Broke;
                self.stop.request();
            }
        }
        ran
    }
}

/// How a flow came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Ran {
    /// It was asked to end, and did.
    ToTheEnd,
    /// A runner broke, and the others ended for that.
    Broke,
}
