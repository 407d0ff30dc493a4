//! Test support: a broker and trails with fault injection, and scripted stages.

mod faulty_broker;
mod memory_trails;
mod script;

pub(crate) use faulty_broker::FaultyBroker;
pub(crate) use memory_trails::MemoryTrails;
pub(crate) use script::{Done, Script, done, passed_on, permanent, transient, unavailable};

use crawlway_broker::{
    Broker, DeadLetter, DeadLetterFilter, DeadLetters, Depth, Outgoing, QueueAdmin, QueueName, QueueSpec,
};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_clock::{Backoff, Clock, ManualClock, Timestamp};
use crawlway_flow::{
    Flow, FlowExit, FlowServices, QueueSource, Settings, Shutdown, SoloLock, StageMetrics, StagePause,
    StageSnapshot,
};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Timeout of everything that succeeds.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Broker, trails and clock of a test.
pub(crate) struct World {
    pub(crate) broker: Arc<FaultyBroker>,
    pub(crate) trails: Arc<MemoryTrails>,
    pub(crate) clock: Clock,
    pub(crate) stop: Shutdown,
    pub(crate) pause: StagePause,
    _directory: tempfile::TempDir,
}

/// Running flow, with the metrics of its first stage.
pub(crate) struct RunningFlow {
    pub(crate) meter: Arc<StageMetrics>,
    task: JoinHandle<FlowExit>,
    stop: Shutdown,
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn spec(name: &str) -> QueueSpec {
    QueueSpec::new(queue(name)).max_attempts(4)
}

/// Settings with short retry delays.
pub(crate) fn quick() -> Settings {
    Settings {
        retry: Backoff::new(Duration::from_millis(1), Duration::from_millis(4)),
        ..Settings::default()
    }
}

/// Ids of this many items.
pub(crate) fn ids(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("item-{number}")).collect()
}

impl World {
    /// World with the queue `q`, on the system clock.
    pub(crate) async fn with_queue() -> (Self, QueueSpec) {
        let spec = spec("q");
        (Self::new(std::slice::from_ref(&spec)).await, spec)
    }

    /// World with these queues, on the system clock.
    pub(crate) async fn new(queues: &[QueueSpec]) -> Self {
        Self::on(Clock::System, queues).await
    }

    /// World with these queues, on a clock that only the test moves.
    pub(crate) async fn with_manual_clock(queues: &[QueueSpec]) -> (Self, Arc<ManualClock>) {
        let manual = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        (Self::on(Clock::Manual(manual.clone()), queues).await, manual)
    }

    async fn on(clock: Clock, queues: &[QueueSpec]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { clock: clock.clone(), ..Options::default() };
        let broker = Arc::new(FaultyBroker::new(EmbeddedBroker::open(directory.path(), options).unwrap()));
        broker.declare(queues).await.unwrap();
        Self {
            broker,
            trails: Arc::default(),
            clock,
            stop: Shutdown::default(),
            pause: StagePause::default(),
            _directory: directory,
        }
    }

    /// World of the next process after a crash of this one.
    pub(crate) fn crash(self) -> Self {
        let Self { broker, trails, clock, _directory, .. } = self;
        drop(broker);
        let options = Options { clock: clock.clone(), ..Options::default() };
        let broker = Arc::new(FaultyBroker::new(EmbeddedBroker::open(_directory.path(), options).unwrap()));
        Self { broker, trails, clock, stop: Shutdown::default(), pause: StagePause::default(), _directory }
    }

    /// World of the next process after a graceful shutdown.
    pub(crate) fn restart(self) -> Self {
        Self { stop: Shutdown::default(), ..self }
    }

    pub(crate) async fn publish(&self, name: &str, ids: impl IntoIterator<Item = impl AsRef<str>>) {
        let outgoing = |id: &str| Outgoing::to_queue(&queue(name), id.to_owned()).id(id);
        let batch: Vec<_> = ids.into_iter().map(|id| outgoing(id.as_ref())).collect();
        for answer in self.broker.publish(batch).await {
            answer.unwrap();
        }
    }

    /// Flow without stages.
    pub(crate) fn flow(&self) -> Flow {
        let parts = FlowServices {
            flow: "test",
            broker: self.broker.clone(),
            queues: self.broker.clone(),
            trails: self.trails.clone(),
            clock: self.clock.clone(),
            worker: "worker-1".into(),
            solo_lock: SoloLock::default(),
            pause: self.pause.clone(),
        };
        Flow::new(parts, self.stop.clone())
    }

    pub(crate) fn source(&self, spec: &QueueSpec) -> QueueSource {
        QueueSource::new(self.broker.clone(), spec.clone())
    }

    /// Runs one stage on one queue.
    pub(crate) fn run(&self, stage: Script, spec: &QueueSpec, settings: Settings) -> RunningFlow {
        self.spawn(self.flow().stage(stage, self.source(spec), settings))
    }

    /// Runs a flow.
    pub(crate) fn spawn(&self, flow: Flow) -> RunningFlow {
        let meter = flow.metrics()[0].1.clone();
        RunningFlow { meter, task: tokio::spawn(flow.run()), stop: self.stop.clone() }
    }

    pub(crate) async fn depth(&self, name: &str) -> Depth {
        self.broker.inner().depth(&queue(name)).await.unwrap()
    }

    pub(crate) async fn dead(&self, name: &str) -> Vec<DeadLetter> {
        self.broker
            .inner()
            .dead_letters(&queue(name), &DeadLetterFilter::all(), None, 1_000)
            .await
            .unwrap()
            .letters
    }

    /// Purges a queue.
    pub(crate) async fn purge(&self, name: &str) {
        self.broker.inner().purge(&queue(name)).await.unwrap();
    }

    /// Waits until the queue has only dead letters.
    pub(crate) async fn until_empty(&self, name: &str) {
        eventually(&format!("{name} is empty"), async || {
            let depth = self.depth(name).await;
            depth.pending() == 0 && depth.in_flight == 0
        })
        .await;
    }
}

impl RunningFlow {
    /// Shuts down gracefully. Returns the final metrics.
    pub(crate) async fn end(self) -> StageSnapshot {
        self.stop.request();
        self.ended().await
    }

    /// Waits for the end of the shutdown. Returns the final metrics.
    pub(crate) async fn ended(self) -> StageSnapshot {
        let ran = tokio::time::timeout(TIMEOUT, self.task).await.expect("it ends in time").unwrap();
        assert_eq!(ran, FlowExit::Graceful);
        self.meter.read()
    }
}

/// Waits until the condition holds.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, waiting).await.is_ok(), "timeout: {what}");
}

/// Checks for 200 ms that the condition holds. It never fails falsely on a slow machine.
pub(crate) async fn remains(what: &str, condition: impl AsyncFn() -> bool) {
    for _ in 0..40 {
        assert!(condition().await, "no longer: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
