//! The engine behind the contract.

use crate::{
    engine::{self, Engine},
    error::{ConnectError, LinkError},
    guarantees,
    link::State,
    options::Options,
    session::Session,
};
use crawlway_broker::{
    Broker, BrokerError, DeadFilter, DeadId, DeadPage, Delivery, Depth, Guarantees, Outgoing, PublishError,
    QueueName, QueueSpec, Receipt, Replayed, SettleError, Settled, Timestamp, Verdict,
};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::Instant};

/// A shorter wait would be over before the server could answer.
const SHORTEST_WAIT: Duration = Duration::from_millis(25);

/// The queue contract on a RabbitMQ server.
#[derive(Debug)]
pub struct RabbitBroker {
    engine: Arc<Engine>,
}

impl RabbitBroker {
    /// Connects, and stays connected from then on: a lost connection is made again. Everything goes on in the current
    /// tokio runtime.
    ///
    /// # Errors
    /// If the server cannot be reached within [`Options::patience`], or does not let us in.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let deadline = Instant::now() + options.patience;
        let first = loop {
            match Session::open(&options, 1).await {
                Ok(session) => break session,
                Err((error, for_good)) if for_good || Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        let engine = Arc::new(Engine::new(options, Handle::current()));
        engine.link.set(State::Away);
        engine.runtime.spawn(engine.clone().supervise(Some(first)));
        engine.runtime.spawn(engine.clone().watch_leases());
        Ok(Self { engine })
    }

    /// Does not wait for the server: connects in the background, and calls are answered as unavailable until then.
    pub fn connect_later(options: Options) -> Self {
        let engine = Arc::new(Engine::new(options, Handle::current()));
        engine.runtime.spawn(engine.clone().supervise(None));
        engine.runtime.spawn(engine.clone().watch_leases());
        Self { engine }
    }

    /// Does the work in a task of its own, so that a caller who goes away does not cut it in half.
    async fn whole<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LinkError> {
        self.engine.runtime.spawn(work).await.map_err(|_| LinkError::Closed)
    }
}

impl Drop for RabbitBroker {
    fn drop(&mut self) {
        if let Some(session) = self.engine.link.close() {
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

    async fn queues(&self) -> Result<Vec<QueueSpec>, BrokerError> {
        self.engine.open()?;
        Ok(self.engine.intakes().iter().map(|intake| intake.spec()).collect())
    }

    fn reachable(&self) -> Result<(), BrokerError> {
        Ok(self.engine.link.is_up()?)
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
        let engine = &self.engine;
        let intake = engine.known(queue)?;
        if max == 0 {
            return Ok(Vec::new());
        }
        let deadline = tokio::time::sleep(wait.max(SHORTEST_WAIT));
        tokio::pin!(deadline);
        let first = intake.take(max);
        let (wish, start) = intake.wish(max, if first.is_empty() { max } else { 0 });
        if start {
            engine.start_intake(&intake);
        }
        let mut taken = first;
        while taken.is_empty() {
            let changed = intake.changed();
            tokio::pin!(changed);
            // From here on no change is missed, also while we look.
            changed.as_mut().enable();
            engine.open()?;
            taken = intake.take(max);
            if !taken.is_empty() {
                break;
            }
            tokio::select! {
                () = &mut changed => {}
                () = engine.link.closed() => return Err(BrokerError::Closed),
                () = &mut deadline => {
                    // Nothing came; whether anything could have come is for the caller to know.
                    return match engine.link.now() {
                        Some(_) => match intake.trouble() {
                            None => Ok(Vec::new()),
                            Some(why) => Err(engine::unusable(queue, &why)),
                        },
                        None => engine.link.session(Duration::ZERO).await.map(|_| Vec::new()).map_err(Into::into),
                    };
                }
            }
        }
        drop(wish);
        let (now, lease) = (Timestamp::now(), intake.lease());
        let mut held = engine.held();
        let deliveries = taken
            .into_iter()
            .map(|arrived| {
                let (message, history) = (arrived.carried.message.clone(), arrived.carried.history.clone());
                let (receipt, lease_until) = held.hand_out(arrived, &intake, lease, now);
                Delivery {
                    receipt,
                    message,
                    attempt: history.attempt,
                    losses: history.losses,
                    last_error: history.last_error,
                    replays: history.replays,
                    lease_until,
                }
            })
            .collect();
        drop(held);
        engine.leases.notify_one();
        Ok(deliveries)
    }

    async fn settle(&self, verdicts: Vec<(Receipt, Verdict)>) -> Vec<Result<Settled, SettleError>> {
        let count = verdicts.len();
        if count == 0 {
            return Vec::new();
        }
        let settled = self.whole(self.engine.clone().settle(verdicts)).await;
        settled.unwrap_or_else(|error| vec![Err(error.into()); count])
    }

    async fn extend(&self, receipts: &[Receipt], lease: Duration) -> Vec<Result<(), SettleError>> {
        self.engine.extend(receipts, lease)
    }

    async fn alone(&self, receipt: &Receipt) -> Result<(), SettleError> {
        self.whole(self.engine.clone().alone(receipt.clone())).await?
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, BrokerError> {
        self.engine.depth(queue).await
    }

    async fn waiting(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        self.engine.waiting(queue).await
    }

    async fn purge(&self, queue: &QueueName) -> Result<u64, BrokerError> {
        let (engine, queue) = (self.engine.clone(), queue.clone());
        self.whole(async move { engine.purge(&queue).await }).await?
    }

    async fn pause(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.engine.pause(queue).await
    }

    async fn resume(&self, queue: &QueueName) -> Result<(), BrokerError> {
        self.engine.resume(queue).await
    }

    async fn dead_letters(
        &self,
        queue: &QueueName,
        filter: &DeadFilter,
        after: Option<&DeadId>,
        limit: usize,
    ) -> Result<DeadPage, BrokerError> {
        let (engine, queue, filter, after) =
            (self.engine.clone(), queue.clone(), filter.clone(), after.cloned());
        self.whole(async move { engine.dead_letters(&queue, &filter, after.as_ref(), limit).await }).await?
    }

    async fn replay(&self, queue: &QueueName, filter: &DeadFilter) -> Result<Replayed, BrokerError> {
        let (engine, queue, filter) = (self.engine.clone(), queue.clone(), filter.clone());
        self.whole(async move { engine.replay(&queue, &filter).await }).await?
    }

    async fn drop_dead(&self, queue: &QueueName, filter: &DeadFilter) -> Result<u64, BrokerError> {
        let (engine, queue, filter) = (self.engine.clone(), queue.clone(), filter.clone());
        self.whole(async move { engine.drop_dead(&queue, &filter).await }).await?
    }

    async fn close(&self) -> Result<(), BrokerError> {
        let engine = self.engine.clone();
        self.whole(async move { engine.close().await }).await?;
        Ok(())
    }
}
