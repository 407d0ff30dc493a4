//! Processes of tests on a server: broker handles with a runtime of their own, and the harness of such backends.

use crate::Harness;
use crawlway_broker::{Broker as _, QueueBackend};
use std::{fmt::Debug, sync::Arc, time::Duration};
use tokio::runtime::{Handle, Runtime};

/// Broker handle with a runtime of its own, which stands for a process: shutting it down is a kill.
#[derive(Debug)]
pub struct Process<B> {
    /// The handle.
    pub broker: Arc<B>,
    runtime: Option<Runtime>,
}

impl<B: Send + 'static> Process<B> {
    /// Starts a process that connects, which must succeed.
    pub async fn start<E: Debug + Send + 'static>(
        connect: impl Future<Output = Result<B, E>> + Send + 'static,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let broker = runtime.spawn(connect).await.expect("the connecting task").expect("the server answers");
        Self { broker: Arc::new(broker), runtime: Some(runtime) }
    }

    /// Ends all its tasks at once.
    pub fn kill(self) {
        drop(self);
    }

    /// Its runtime.
    pub fn handle(&self) -> Handle {
        self.runtime.as_ref().expect("it runs").handle().clone()
    }
}

impl<B> Drop for Process<B> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A backend on a shared server, for [`ServerHarness`].
#[async_trait::async_trait]
pub trait ServerBackend: Send + Sync {
    /// Its broker handle.
    type Broker: QueueBackend + 'static;

    /// Starts a process.
    async fn start(&self) -> Process<Self::Broker>;

    /// Deletes the queues of a handle: the server is shared, and thousands of them would use up its memory.
    async fn delete_queues(broker: &Self::Broker);

    /// Timeout for expected events.
    fn deadline(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Harness of a backend on a shared server.
#[derive(Debug)]
pub struct ServerHarness<S: ServerBackend> {
    backend: S,
    open: Vec<Process<S::Broker>>,
}

impl<S: ServerBackend> ServerHarness<S> {
    /// Harness without processes.
    pub fn new(backend: S) -> Self {
        Self { backend, open: Vec::new() }
    }

    async fn open(&mut self) -> Arc<dyn QueueBackend> {
        let process = self.backend.start().await;
        let broker = process.broker.clone();
        self.open.push(process);
        broker
    }
}

impl<S: ServerBackend> Drop for ServerHarness<S> {
    fn drop(&mut self) {
        for process in self.open.drain(..) {
            let (broker, runtime) = (process.broker.clone(), process.handle());
            // In a thread, since this one belongs to a runtime and must not block.
            let _ = std::thread::spawn(move || runtime.block_on(S::delete_queues(&broker))).join();
            process.kill();
        }
    }
}

#[async_trait::async_trait]
impl<S: ServerBackend> Harness for ServerHarness<S> {
    async fn fresh(&mut self) -> Arc<dyn QueueBackend> {
        self.open().await
    }

    async fn restart(&mut self) -> Arc<dyn QueueBackend> {
        if let Some(process) = self.open.last() {
            process.broker.close().await.expect("the broker closes");
        }
        self.open().await
    }

    async fn crash(&mut self) -> Arc<dyn QueueBackend> {
        if let Some(process) = self.open.pop() {
            process.kill();
        }
        self.open().await
    }

    async fn second_handle(&mut self) -> Option<Arc<dyn QueueBackend>> {
        Some(self.open().await)
    }

    fn deadline(&self) -> Duration {
        self.backend.deadline()
    }
}
