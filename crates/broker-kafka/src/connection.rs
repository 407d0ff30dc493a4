//! Connection to the servers: the producer and the administrative clients.
//!
//! The producer is idempotent. After a fatal error, of which it does not recover, another one takes its place; what was in flight is
//! unconfirmed.

use crate::{
    error::{self, ConnectError, Failure},
    health::{Callbacks, Health},
    options::Options,
    wire::Publication,
};
use crawlway_broker::PublishError;
use parking_lot::RwLock;
use rdkafka::{
    admin::AdminClient,
    config::FromClientConfigAndContext as _,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    producer::{FutureProducer, FutureRecord, Producer as _},
    types::RDKafkaErrorCode,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Delay before a message is offered again to a producer whose buffer is full.
const BUFFER_FULL_DELAY: Duration = Duration::from_millis(10);

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

    /// Why no server is reachable, and what to do, if the last connection failed by a certificate or the login.
    pub(crate) fn refusal(&self) -> Option<String> {
        let reason = self.health.reason();
        error::advice(&self.options, &reason).map(|advice| format!("{reason}; {advice}"))
    }

    /// Why no server is reachable.
    pub(crate) fn outage(&self) -> String {
        let reason = self.refusal().unwrap_or_else(|| self.health.reason());
        let Options { tls, sasl, table, .. } = &self.options;
        // A server closes such a connection without a word.
        let may_be_refused = reason.is_empty() || reason.contains("Disconnected");
        if tls.is_none() && sasl.is_none() && may_be_refused {
            return format!(
                "{}; if the servers ask for TLS or a login, set `{table}.security_protocol`",
                if reason.is_empty() { "no answer" } else { &reason }
            );
        }
        reason
    }

    /// Text of an error while no server is reachable.
    pub(crate) fn unreachable(&self) -> String {
        format!("Kafka at {} is unreachable: {}", self.options.servers, self.outage())
    }

    /// Publishes records with confirms: one result per record.
    pub(crate) async fn publish(&self, batch: &[Publication]) -> Vec<Result<(), PublishError>> {
        if self.health.is_down() {
            let detail = self.unreachable();
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

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::{
        mocking::MockCluster,
        types::{RDKafkaApiKey, RDKafkaRespErr},
    };

    /// A mock cluster, since no request makes a real server answer so.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_fatal_error_rebuilds_the_producer() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("topic", 1, 1).unwrap();
        let options = Options { servers: cluster.bootstrap_servers(), ..Options::default() };
        let connection = Connection::new(options).unwrap();
        let publication = Publication {
            topic: "topic".to_owned(),
            partition: None,
            key: None,
            headers: Vec::new(),
            body: Some("body".into()),
        };
        for _ in 0..2 {
            assert_eq!(connection.publish(std::slice::from_ref(&publication)).await, [Ok(())]);
            let failed = connection.producer.read().clone();
            cluster.request_errors(
                RDKafkaApiKey::Produce,
                &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER],
            );
            let answer = connection.publish(std::slice::from_ref(&publication)).await.remove(0);
            assert!(matches!(answer, Err(PublishError::Unconfirmed { .. })), "{answer:?}");
            assert!(failed.client().fatal_error().is_some());
            assert!(connection.producer.read().client().fatal_error().is_none(), "it is another one");
        }
        assert_eq!(connection.publish(&[publication]).await, [Ok(())]);
    }
}
