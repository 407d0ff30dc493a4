//! [`RabbitBroker`]: a broker handle, and its implementation of the queue contract.

use crate::{
    engine::Engine,
    error::{ConnectError, SessionError},
    guarantees,
    options::Options,
    session::Session,
};
use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery, Depth,
    Guarantees, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, Receipt, ReplayOutcome,
    SettleError, SettleOutcome, Verdict,
};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::Instant};

/// Delay between the attempts of [`RabbitBroker::connect`].
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The queue contract on a RabbitMQ server.
#[derive(Debug)]
pub struct RabbitBroker {
    engine: Arc<Engine>,
}

impl RabbitBroker {
    /// Connects to the server. A lost connection is re-established in the background, in the current tokio runtime.
    ///
    /// # Errors
    /// If the server cannot be reached within [`Options::connection_timeout`] or refuses the login.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let deadline = Instant::now() + options.connection_timeout;
        let session = loop {
            match Session::open(&options, 1).await {
                Ok(session) => break session,
                Err((error, permanent)) if permanent || Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(CONNECT_RETRY_DELAY).await,
            }
        };
        Ok(Self::start(options, Some(session)))
    }

    /// Connects in the background. Until then, calls fail as unavailable.
    pub fn connect_later(options: Options) -> Self {
        Self::start(options, None)
    }

    fn start(options: Options, session: Option<Session>) -> Self {
        let engine = Arc::new(Engine::new(options, Handle::current()));
        engine.runtime.spawn(engine.clone().supervise(session));
        engine.runtime.spawn(engine.clone().watch_leases());
        Self { engine }
    }

    /// Runs the work in a task of its own, so that a cancelled call does not leave it half done.
    async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, SessionError> {
        self.engine.runtime.spawn(work).await.map_err(|_| SessionError::Closed)
    }
}

impl Drop for RabbitBroker {
    fn drop(&mut self) {
        if let Some(session) = self.engine.connection.close() {
            self.engine.runtime.spawn(async move { session.close().await });
        }
    }
}

#[async_trait::async_trait]
impl Broker for RabbitBroker {
    fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(self.engine.options.max_message)
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.engine.declare(queues).await
    }

    fn reachable(&self) -> Result<(), BrokerError> {
        Ok(self.engine.connection.check_connected()?)
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        self.engine.publish(batch).await
    }

    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, BrokerError> {
        self.engine.receive(queue, max, wait).await
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<SettleOutcome, SettleError>> {
        let count = verdicts.len();
        if count == 0 {
            return Vec::new();
        }
        let settled = self.detached(self.engine.clone().settle(verdicts)).await;
        settled.unwrap_or_else(|error| vec![Err(error.into()); count])
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        self.engine.extend(receipts, lease)
    }

    async fn mark_solo(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.detached(self.engine.clone().mark_solo(receipt.clone())).await?
    }

    async fn close(&self) -> Result<(), BrokerError> {
        let engine = self.engine.clone();
        self.detached(async move { engine.close().await }).await?;
        Ok(())
    }
}

#[async_trait::async_trait]
impl QueueAdmin for RabbitBroker {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.engine.check_open()?;
        Ok(self.engine.local_queues().iter().map(|local| local.spec()).collect())
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        self.engine.depth(queue).await
    }

    async fn pending(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.engine.pending(queue).await
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let (engine, queue) = (self.engine.clone(), queue.clone());
        self.detached(async move { engine.purge(&queue).await }).await?
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.engine.pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.engine.resume(queue).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for RabbitBroker {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        let (engine, queue, filter, after) =
            (self.engine.clone(), queue.clone(), filter.clone(), after.cloned());
        self.detached(async move { engine.dead_letters(&queue, &filter, after.as_ref(), limit).await })
            .await?
    }

    async fn replay(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<ReplayOutcome, BrokerError> {
        let (engine, queue, filter) = (self.engine.clone(), queue.clone(), filter.clone());
        self.detached(async move { engine.replay(&queue, &filter).await }).await?
    }

    async fn drop_dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
    ) -> Result<u64, BrokerError> {
        let (engine, queue, filter) = (self.engine.clone(), queue.clone(), filter.clone());
        self.detached(async move { engine.drop_dead_letters(&queue, &filter).await }).await?
    }
}
