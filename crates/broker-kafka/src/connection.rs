//! Connection to the servers: the producer, the administrative clients, and whether the servers are reachable.
//!
//! ```text
//!        ┌────────── a request succeeded ───────────┐
//!        ▼                                          │
//!   reachable ── all servers are down ──▶ down ── probe every second
//! ```
//!
//! The producer is idempotent. After a fatal error, of which it does not recover, another one takes its place; what was in flight is
//! unconfirmed.

use crate::{
    error::{ConnectError, Failure, is_outage},
    options::Options,
    wire::Publication,
};
use crawlway_broker::PublishError;
use parking_lot::RwLock;
use rdkafka::{
    ClientContext,
    admin::AdminClient,
    config::FromClientConfigAndContext as _,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::KafkaError,
    producer::{FutureProducer, FutureRecord, Producer as _},
    types::RDKafkaErrorCode,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Delay before a message is offered again to a producer whose buffer is full.
const BUFFER_FULL_DELAY: Duration = Duration::from_millis(10);

/// Whether the servers are reachable, as their clients report it.
#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool,
}

impl Health {
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    pub(crate) fn set_down(&self, down: bool) {
        if self.down.swap(down, Ordering::Relaxed) != down {
            if down {
                tracing::warn!("Kafka is unreachable");
            } else {
                tracing::info!("Kafka is reachable again");
            }
        }
    }

    pub(crate) fn record(&self, error: &KafkaError) {
        if is_outage(error) {
            self.set_down(true);
        }
    }
}

/// Callbacks of a client: errors and log lines.
#[derive(Debug, Clone)]
pub(crate) struct Callbacks(pub(crate) Arc<Health>);

impl ClientContext for Callbacks {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "error of a Kafka client");
        self.0.record(&error);
    }

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "Kafka client");
    }
}

impl ConsumerContext for Callbacks {}

type IdempotentProducer = FutureProducer<Callbacks>;

/// Clients of one Kafka.
pub(crate) struct Connection {
    pub(crate) options: Options,
    pub(crate) health: Arc<Health>,
    producer: RwLock<IdempotentProducer>,
    /// Creates topics and removes records.
    pub(crate) admin: AdminClient<Callbacks>,
    /// Reads offsets of all topics. Its group has the purge marks and no members.
    pub(crate) marks: Arc<BaseConsumer<Callbacks>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Connection {
    /// Makes the clients, which connect in the background.
    pub(crate) fn new(options: Options) -> Result<Self, ConnectError> {
        let health = Arc::new(Health::default());
        let callbacks = Callbacks(health.clone());
        let invalid = |error: KafkaError| ConnectError::Invalid(error.to_string());
        let producer = IdempotentProducer::from_config_and_context(&options.producer(), callbacks.clone())
            .map_err(invalid)?;
        let admin =
            AdminClient::from_config_and_context(&options.client(), callbacks.clone()).map_err(invalid)?;
        let group = format!("{}.purge", options.group_prefix);
        let marks = BaseConsumer::from_config_and_context(&options.group_client(&group), callbacks)
            .map_err(invalid)?;
        Ok(Self { options, health, producer: RwLock::new(producer), admin, marks: Arc::new(marks) })
    }

    /// A client for the offsets of a group, which it never joins.
    pub(crate) fn group_client(&self, group: &str) -> Result<BaseConsumer<Callbacks>, Failure> {
        let config = self.options.group_client(group);
        Ok(BaseConsumer::from_config_and_context(&config, Callbacks(self.health.clone()))?)
    }

    /// Asks the servers for an answer. Blocks.
    pub(crate) fn probe(&self, timeout: Duration) -> Result<(), KafkaError> {
        let answer = self.marks.fetch_metadata(Some("crawlway-probe"), timeout);
        self.health.set_down(answer.is_err());
        answer.map(drop)
    }

    /// Publishes records with confirms: one result per record.
    pub(crate) async fn publish(&self, batch: &[Publication]) -> Vec<Result<(), PublishError>> {
        if self.health.is_down() {
            let detail = format!("Kafka at {} is unreachable", self.options.servers);
            return batch.iter().map(|_| Err(PublishError::Unavailable { detail: detail.clone() })).collect();
        }
        let producer = self.producer.read().clone();
        let mut sent = Vec::with_capacity(batch.len());
        for publication in batch {
            sent.push(self.send(&producer, publication).await);
        }
        let mut results = Vec::with_capacity(batch.len());
        for (outcome, publication) in sent.into_iter().zip(batch) {
            results.push(match outcome {
                Err(error) => Err(self.publish_error(&producer, &error, publication)),
                Ok(delivery) => match delivery.await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err((error, _))) => Err(self.publish_error(&producer, &error, publication)),
                    Err(_) => Err(PublishError::Unconfirmed { detail: "the producer was closed".to_owned() }),
                },
            });
        }
        if results.iter().any(Result::is_ok) {
            self.health.set_down(false);
        }
        results
    }

    async fn send(
        &self,
        producer: &IdempotentProducer,
        publication: &Publication,
    ) -> Result<rdkafka::producer::DeliveryFuture, KafkaError> {
        let start = Instant::now();
        loop {
            let mut record =
                FutureRecord::<[u8], [u8]>::to(&publication.topic).headers(publication.owned_headers());
            if let Some(partition) = publication.partition {
                record = record.partition(partition);
            }
            if let Some(key) = &publication.key {
                record = record.key(key);
            }
            if let Some(body) = &publication.body {
                record = record.payload(body);
            }
            match producer.send_result(record) {
                Ok(delivery) => return Ok(delivery),
                Err((error, _))
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
                        && start.elapsed() < self.options.publish_timeout =>
                {
                    tokio::time::sleep(BUFFER_FULL_DELAY).await;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    fn publish_error(
        &self,
        producer: &IdempotentProducer,
        error: &KafkaError,
        publication: &Publication,
    ) -> PublishError {
        if producer.client().fatal_error().is_some() {
            self.rebuild_producer(producer);
        }
        self.health.record(error);
        let detail = format!("Kafka, topic `{}`: {error}", publication.topic);
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize) => {
                let (id, limit) = (publication.id(), self.options.max_message);
                PublishError::TooLarge { id, size: publication.size(), limit }
            }
            // These are answers of the server, or of the client before it sent anything.
            Some(
                RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::NotEnoughReplicas
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed
                | RDKafkaErrorCode::QueueFull,
            ) => PublishError::Unavailable { detail },
            _ => PublishError::Unconfirmed { detail },
        }
    }

    /// Replaces a producer after a fatal error.
    fn rebuild_producer(&self, failed: &IdempotentProducer) {
        let mut current = self.producer.write();
        // Another call may have replaced it.
        if current.client().fatal_error().is_none() {
            return;
        }
        let reason = failed.client().fatal_error().map(|(_, reason)| reason);
        tracing::warn!(reason, "the Kafka producer failed for good and is made anew");
        let callbacks = Callbacks(self.health.clone());
        match IdempotentProducer::from_config_and_context(&self.options.producer(), callbacks) {
            Ok(producer) => *current = producer,
            Err(error) => tracing::error!(%error, "the Kafka producer cannot be made anew"),
        }
    }

    /// Waits until everything that was sent is confirmed or failed. Blocks.
    pub(crate) fn flush(&self) {
        let producer = self.producer.read().clone();
        let _ = producer.flush(self.options.request_timeout);
    }
}
