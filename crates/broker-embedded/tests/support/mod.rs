//! Harness of the embedded queue for the conformance suite, with a manual clock.

use crawlway_broker::{QueueBackend, Timestamp};
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

/// Wraps the opened queue for the suite.
type Wrap = Box<dyn Fn(EmbeddedBroker) -> Arc<dyn QueueBackend> + Send>;

pub(crate) struct EmbeddedHarness {
    clock: Arc<ManualClock>,
    folder: TempDir,
    /// Number of the current folder: each crash continues in a copy.
    generation: u32,
    broker: Option<Arc<dyn QueueBackend>>,
    wrap: Wrap,
    deadline: Duration,
}

impl EmbeddedHarness {
    pub(crate) fn new(
        deadline: Duration,
        wrap: impl Fn(EmbeddedBroker) -> Arc<dyn QueueBackend> + Send + 'static,
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

    fn open(&mut self) -> Arc<dyn QueueBackend> {
        let options = Options { clock: Clock::Manual(self.clock.clone()), ..Options::default() };
        let broker = EmbeddedBroker::open(&self.directory(), options).expect("the directory opens");
        let broker = (self.wrap)(broker);
        self.broker = Some(broker.clone());
        broker
    }
}

/// Copies all files; `false` if housekeeping created or removed one meanwhile, so that the copy is inconsistent.
fn copy_snapshot(from: &Path, to: &Path) -> bool {
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
    async fn fresh(&mut self) -> Arc<dyn QueueBackend> {
        self.open()
    }

    async fn restart(&mut self) -> Arc<dyn QueueBackend> {
        if let Some(broker) = self.broker.take() {
            broker.close().await.expect("the broker closes");
        }
        self.open()
    }

    /// Continues with a copy of the files at this moment, as after a kill.
    async fn crash(&mut self) -> Arc<dyn QueueBackend> {
        let before = self.directory();
        loop {
            self.generation += 1;
            if copy_snapshot(&before, &self.directory()) {
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

    fn poll_timeout(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}
