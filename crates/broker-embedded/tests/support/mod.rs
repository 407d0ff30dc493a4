//! The embedded queue for the conformance suite, on a clock that the suite moves.

use crawlway_broker::{Broker, Timestamp};
use crawlway_broker_conformance::Harness;
use crawlway_broker_embedded::{Clock, EmbeddedBroker, ManualClock, Options};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;

/// Makes what the suite sees of a queue that was opened.
type Wrap = Box<dyn Fn(EmbeddedBroker) -> Arc<dyn Broker> + Send>;

pub(crate) struct EmbeddedHarness {
    clock: Arc<ManualClock>,
    folder: TempDir,
    /// Each crash goes on in a folder of its own.
    generation: u32,
    broker: Option<Arc<dyn Broker>>,
    wrap: Wrap,
    deadline: Duration,
}

impl EmbeddedHarness {
    pub(crate) fn new(
        deadline: Duration,
        wrap: impl Fn(EmbeddedBroker) -> Arc<dyn Broker> + Send + 'static,
    ) -> Self {
        Self {
            clock: ManualClock::at(Timestamp::now()),
            folder: tempfile::tempdir().expect("a temporary folder"),
            generation: 0,
            broker: None,
            wrap: Box::new(wrap),
            deadline,
        }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join(self.generation.to_string())
    }

    fn open(&mut self) -> Arc<dyn Broker> {
        let options = Options { clock: Clock::Manual(self.clock.clone()), ..Options::default() };
        let broker = EmbeddedBroker::open(&self.directory(), options).expect("the directory opens");
        let broker = (self.wrap)(broker);
        self.broker = Some(broker.clone());
        broker
    }
}

/// Copies all files, unless housekeeping came or went with one of them meanwhile: such a copy is of no one moment.
fn copied_at_one_moment(from: &Path, to: &Path) -> bool {
    let names = || -> BTreeSet<_> {
        let entries = fs::read_dir(from).expect("the directory can be listed");
        entries.map(|entry| entry.expect("the directory can be listed").file_name()).collect()
    };
    fs::create_dir_all(to).expect("a folder for what is left");
    let listed = names();
    listed.iter().all(|name| fs::copy(from.join(name), to.join(name)).is_ok()) && names() == listed
}

#[async_trait::async_trait]
impl Harness for EmbeddedHarness {
    async fn fresh(&mut self) -> Arc<dyn Broker> {
        self.open()
    }

    async fn restart(&mut self) -> Arc<dyn Broker> {
        if let Some(broker) = self.broker.take() {
            broker.close().await.expect("the broker closes");
        }
        self.open()
    }

    /// Goes on with the files as they are at this moment, which is what a killed process leaves.
    async fn crash(&mut self) -> Arc<dyn Broker> {
        let before = self.directory();
        loop {
            self.generation += 1;
            if copied_at_one_moment(&before, &self.directory()) {
                return self.open();
            }
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
    }

    fn poll_wait(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
