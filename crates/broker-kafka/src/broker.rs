//! [`KafkaBroker`]: a broker handle, and its implementation of the queue contract.

use crate::{
    connection::Connection,
    engine::Engine,
    error::{ConnectError, Failure},
    guarantees,
    options::Options,
};
use crawlway_broker::{
    Broker, BrokerError, DeadLetterFilter, DeadLetterId, DeadLetterPage, DeadLetters, Delivery, Depth,
    Guarantees, LengthLimited, Outgoing, PublishError, QueueAdmin, QueueName, QueueSpec, Receipt,
    ReplayOutcome, SettleError, SettleOutcome, Verdict,
};
use crawlway_store::Ledger;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// Timeout of one attempt of [`connect`], and the delay between two.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum time of closing's last commit.
const LAST_COMMIT: Duration = Duration::from_secs(2);

/// The queue contract on Apache Kafka, without maximum lengths; [`connect`] adds them.
#[derive(Debug)]
pub struct KafkaBroker {
    engine: Arc<Engine>,
}

/// Connects to a Kafka. `ledger` is shared by all processes that use the same queues.
///
/// # Errors
/// If no server answers within [`Options::request_timeout`], a certificate or the login is refused, or the options are invalid.
pub async fn connect(
    options: Options,
    ledger: Arc<dyn Ledger>,
) -> Result<LengthLimited<KafkaBroker>, ConnectError> {
    let (timeout, servers) = (options.request_timeout, options.servers.clone());
    let broker = connect_later(options, ledger)?;
    let engine = broker.inner().engine.clone();
    let start = Instant::now();
    loop {
        match engine.blocking(move |connection| connection.probe(PROBE_TIMEOUT)).await {
            Ok(Ok(())) => return Ok(broker),
            Ok(Err(_)) => {
                if let Some(reason) = engine.connection.refusal() {
                    return Err(ConnectError::Refused { servers, reason });
                }
                if start.elapsed() >= timeout {
                    return Err(ConnectError::Unreachable { servers, detail: engine.connection.outage() });
                }
                tokio::time::sleep(CONNECT_RETRY_DELAY).await;
            }
            Err(failure) => {
                return Err(ConnectError::Unreachable { servers, detail: failure.to_string() });
            }
        }
    }
}

/// Connects in the background. Until then, calls fail as unavailable.
///
/// # Errors
/// If the options are invalid.
pub fn connect_later(
    options: Options,
    ledger: Arc<dyn Ledger>,
) -> Result<LengthLimited<KafkaBroker>, ConnectError> {
    let guarantees = guarantees::guarantees(options.max_message);
    let engine = Arc::new(Engine::new(Connection::new(options)?, ledger, Handle::current()));
    engine.runtime.spawn(engine.clone().watch());
    Ok(LengthLimited::new(KafkaBroker { engine }, guarantees))
}

impl KafkaBroker {
    /// Runs the work in a task of its own, so that a cancelled call does not leave it half done.
    async fn detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        self.engine.runtime.spawn(work).await.map_err(|_| Failure::Closed)
    }
}

/// Leaves the groups without closing the session, as after a crash.
impl Drop for KafkaBroker {
    fn drop(&mut self) {
        self.engine.set_closed();
        // Their threads have the last references.
        for (_, consumer) in self.engine.consumers.lock().drain() {
            consumer.stop();
        }
    }
}

impl Engine {
    async fn close(self: Arc<Self>) {
        if !self.set_closed() {
            return;
        }
        let consumers: Vec<_> = {
            let mut consumers = self.consumers.lock();
            consumers.drain().collect()
        };
        for (queue, consumer) in &consumers {
            let Some(local) = self.find_queue(queue) else { continue };
            consumer.update(&local);
            let _ = tokio::time::timeout(LAST_COMMIT, local.all_committed()).await;
            consumer.stop();
        }
        let _ = self
            .blocking(move |connection| {
                for (_, consumer) in consumers {
                    consumer.join();
                }
                connection.flush();
            })
            .await;
        if let Some(session) = self.session.current()
            && let Err(error) = self.ledger.close_session(&session).await
        {
            tracing::warn!(%error, "closing the session in the ledger");
        }
    }
}

#[async_trait::async_trait]
impl Broker for KafkaBroker {
    fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(self.engine.connection.options.max_message)
    }

    async fn declare(&self, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.engine.declare(queues).await
    }

    fn reachable(&self) -> Result<(), BrokerError> {
        Ok(self.engine.check_reachable()?)
    }

    async fn publish(&self, batch: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        if batch.is_empty() {
            return Vec::new();
        }
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
        Ok(self.detached(self.engine.clone().close()).await?)
    }
}

#[async_trait::async_trait]
impl QueueAdmin for KafkaBroker {
    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.engine.check_open()?;
        Ok(self.engine.local_queues().iter().map(|local| local.state().spec.clone()).collect())
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        self.engine.depth(queue).await
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.engine.purge(queue).await
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.engine.pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.engine.resume(queue).await
    }
}

#[async_trait::async_trait]
impl DeadLetters for KafkaBroker {
    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadLetterFilter,
        after: Option<&DeadLetterId>,
        limit: usize,
    ) -> Result<DeadLetterPage, BrokerError> {
        self.engine.dead_letters(queue, filter, after, limit).await
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
        self.engine.drop_dead_letters(queue, filter).await
    }
}
