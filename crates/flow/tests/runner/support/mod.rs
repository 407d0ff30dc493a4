//! What the tests share: a queue that fails on command, trails in memory, and stages that do as the test says.

mod memory;
mod script;
mod shaky;

pub(crate) use memory::Memory;
pub(crate) use script::{Done, Script, done, ours, passed_on, permanent, transient};
pub(crate) use shaky::Shaky;

use crawlway_broker::{Broker, DeadFilter, DeadLetter, Depth, Outgoing, QueueName, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options};
use crawlway_clock::{Clock, ManualClock, Timestamp};
use crawlway_flow::{Exclusive, Flow, Meter, Parts, QueueSource, Ran, Settings, Stop};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// Longer than anything takes that works.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A queue, trails and a clock.
pub(crate) struct World {
    pub(crate) broker: Arc<Shaky>,
    pub(crate) trails: Arc<Memory>,
    pub(crate) clock: Clock,
    pub(crate) stop: Stop,
    _directory: tempfile::TempDir,
}

/// A flow under way.
pub(crate) struct Going {
    pub(crate) meter: Arc<Meter>,
    task: JoinHandle<Ran>,
    stop: Stop,
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn spec(name: &str) -> QueueSpec {
    QueueSpec::new(queue(name)).max_attempts(4)
}

/// Settings under which nothing waits longer than it must.
pub(crate) fn quick() -> Settings {
    Settings {
        first_retry: Duration::from_millis(1),
        last_retry: Duration::from_millis(4),
        ..Settings::default()
    }
}

impl World {
    /// On the system's clock, with these queues.
    pub(crate) async fn new(queues: &[QueueSpec]) -> Self {
        Self::on(Clock::System, queues).await
    }

    /// On a clock that stands still.
    pub(crate) async fn standing_still(queues: &[QueueSpec]) -> (Self, Arc<ManualClock>) {
        let manual = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        (Self::on(Clock::Manual(manual.clone()), queues).await, manual)
    }

    async fn on(clock: Clock, queues: &[QueueSpec]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { clock: clock.clone(), ..Options::default() };
        let broker = Arc::new(Shaky::new(EmbeddedBroker::open(directory.path(), options).unwrap()));
        broker.declare(queues).await.unwrap();
        Self { broker, trails: Arc::default(), clock, stop: Stop::default(), _directory: directory }
    }

    /// As the next process finds it after this one was killed.
    pub(crate) fn after_a_crash(self) -> Self {
        let Self { broker, trails, clock, _directory, .. } = self;
        drop(broker);
        let options = Options { clock: clock.clone(), ..Options::default() };
        let broker = Arc::new(Shaky::new(EmbeddedBroker::open(_directory.path(), options).unwrap()));
        Self { broker, trails, clock, stop: Stop::default(), _directory }
    }

    /// As it is for the next process.
    pub(crate) fn again(self) -> Self {
        Self { stop: Stop::default(), ..self }
    }

    pub(crate) async fn publish(&self, name: &str, ids: impl IntoIterator<Item = impl AsRef<str>>) {
        let outgoing = |id: &str| Outgoing::to_queue(&queue(name), id.to_owned()).id(id);
        let batch: Vec<_> = ids.into_iter().map(|id| outgoing(id.as_ref())).collect();
        for answer in self.broker.publish(batch).await {
            answer.unwrap();
        }
    }

    /// A flow without stages.
    pub(crate) fn flow(&self) -> Flow {
        let parts = Parts {
            flow: "test",
            broker: self.broker.clone(),
            trails: self.trails.clone(),
            clock: self.clock.clone(),
            worker: "worker-1".into(),
            exclusive: Exclusive::default(),
        };
        Flow::new(parts, self.stop.clone())
    }

    pub(crate) fn source(&self, spec: &QueueSpec) -> QueueSource {
        QueueSource::new(self.broker.clone(), spec.clone())
    }

    /// Runs one stage on one queue.
    pub(crate) fn go(&self, stage: Script, spec: &QueueSpec, settings: Settings) -> Going {
        self.set_going(self.flow().stage(stage, self.source(spec), settings))
    }

    /// Runs a flow, of which the first stage is watched.
    pub(crate) fn set_going(&self, flow: Flow) -> Going {
        let meter = flow.meters()[0].1.clone();
        Going { meter, task: tokio::spawn(flow.run()), stop: self.stop.clone() }
    }

    pub(crate) async fn depth(&self, name: &str) -> Depth {
        self.broker.inner().depth(&queue(name)).await.unwrap()
    }

    pub(crate) async fn dead(&self, name: &str) -> Vec<DeadLetter> {
        self.broker.inner().dead_letters(&queue(name), &DeadFilter::all(), None, 1_000).await.unwrap().letters
    }

    /// Throws away what waits there.
    pub(crate) async fn purge(&self, name: &str) {
        self.broker.inner().purge(&queue(name)).await.unwrap();
    }

    /// Waits until nothing is left in the queue but dead letters.
    pub(crate) async fn until_empty(&self, name: &str) {
        eventually(&format!("{name} is empty"), async || {
            let depth = self.depth(name).await;
            depth.waiting() == 0 && depth.in_flight == 0
        })
        .await;
    }
}

impl Going {
    /// Stops, and waits for the end.
    pub(crate) async fn end(self) {
        self.stop.request();
        self.ended().await;
    }

    /// Waits for the end.
    pub(crate) async fn ended(self) {
        let ran = tokio::time::timeout(LIMIT, self.task).await.expect("it ends in time").unwrap();
        assert_eq!(ran, Ran::ToTheEnd);
    }
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "still not so: {what}");
}

/// Looks for a while whether it stays so. Finds no fault where there is none, however slow the machine is.
pub(crate) async fn stays(what: &str, so: impl AsyncFn() -> bool) {
    for _ in 0..40 {
        assert!(so().await, "no longer so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
