//! Declaring: topics are created, or verified and refused if they differ in what matters.

use crate::{
    connection::Connection,
    engine::Engine,
    error::Failure,
    local_queue::{LocalQueue, QueueState, Topics},
    names::{self, Names, TIERS},
    options::Options,
};
use crawlway_broker::{Aspect, BrokerError, QueueName, QueueSpec};
use rdkafka::{
    Offset, TopicPartitionList,
    admin::{AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication},
    consumer::{CommitMode, Consumer as _},
    types::RDKafkaErrorCode,
};
use std::{sync::Arc, time::Duration};

/// Tries to read the settings of a topic, and the delay between them.
const DESCRIBE_TRIES: u32 = 30;
const DESCRIBE_DELAY: Duration = Duration::from_millis(100);

impl Options {
    /// Refuses what this backend cannot guarantee, without asking a server.
    ///
    /// # Errors
    /// If the spec is invalid or refused.
    pub fn check(&self, spec: &QueueSpec) -> Result<(), BrokerError> {
        crate::guarantees::guarantees(self.max_message).check(spec)?;
        if names::is_reserved(&spec.name) {
            let why = "names that end with `.wait` are kept for delayed messages";
            return Err(spec.refused(Aspect::Names, why));
        }
        Ok(())
    }
}

impl Engine {
    pub(crate) async fn declare(self: &Arc<Self>, queues: &[QueueSpec]) -> Result<(), BrokerError> {
        self.check_reachable()?;
        for spec in queues {
            self.connection.options.check(spec)?;
        }
        let paused = self.ledger.paused().await?;
        for spec in queues {
            let names = Names::new(&spec.name, &self.connection.options.group_prefix);
            if self.queues.find(&spec.name).is_none() && self.create(&spec.name, &names).await? {
                self.commit_start(&names).await?;
            }
            self.ledger.bind(spec).await?;
            let new = || LocalQueue::new(Topics::new(names), QueueState::new(spec.clone()));
            self.register(spec, paused.contains(spec.name.as_str()), new);
        }
        Ok(())
    }

    /// Creates the topics of a queue, or verifies them. Whether its own topic is new.
    async fn create(&self, queue: &QueueName, names: &Names) -> Result<bool, BrokerError> {
        let options = &self.connection.options;
        let partitions = i32::try_from(options.partitions).unwrap_or(1);
        let tiers = i32::try_from(TIERS.len()).unwrap_or(1);
        let created = self.create_topics(queue, &[(&names.main, partitions), (&names.wait, tiers)]).await?;
        for (topic, partitions) in [(&names.main, 1), (&names.wait, TIERS.len())] {
            if !created.contains(topic) {
                self.verify(queue, topic, partitions).await?;
            }
        }
        Ok(created.contains(&names.main))
    }

    /// Creates topics. Returns those that are new; the server answers in any order.
    async fn create_topics(
        &self,
        queue: &QueueName,
        topics: &[(&str, i32)],
    ) -> Result<Vec<String>, BrokerError> {
        let options = &self.connection.options;
        let replication = match i32::try_from(options.replication) {
            Ok(0) | Err(_) => -1,
            Ok(replication) => replication,
        };
        let (retention, max_bytes) =
            (options.retention.as_millis().to_string(), options.max_record().to_string());
        let new: Vec<NewTopic<'_>> = topics
            .iter()
            .map(|(topic, partitions)| {
                NewTopic::new(topic, *partitions, TopicReplication::Fixed(replication))
                    .set("cleanup.policy", "delete")
                    .set("retention.ms", &retention)
                    .set("max.message.bytes", &max_bytes)
                    .set("unclean.leader.election.enable", "false")
                    // Retention and ages then go by the server's clock.
                    .set("message.timestamp.type", "LogAppendTime")
            })
            .collect();
        let results = self
            .connection
            .admin
            .create_topics(&new, &admin_options(options))
            .await
            .map_err(Failure::from)?;
        results
            .into_iter()
            .filter_map(|result| match result {
                Ok(topic) => Some(Ok(topic)),
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => None,
                Err((topic, RDKafkaErrorCode::InvalidTopic)) => Some(Err(BrokerError::Refused {
                    queue: queue.clone(),
                    aspect: Aspect::Names,
                    why: format!(
                        "Kafka refuses the topic `{topic}`: there may be one whose name differs only in dots and underscores"
                    ),
                })),
                Err((topic, error)) => Some(Err(BrokerError::Unavailable {
                    detail: format!("Kafka cannot create the topic `{topic}`: {error}"),
                })),
            })
            .collect()
    }

    /// Refuses an existing topic that could lose messages, or has fewer partitions than are needed.
    async fn verify(&self, queue: &QueueName, topic: &str, partitions: usize) -> Result<(), BrokerError> {
        let options = &self.connection.options;
        let config = self.describe(topic).await?;
        let found = match difference(&config, options) {
            None => self.layout_difference(topic, partitions).await?,
            found => found,
        };
        match found {
            None => Ok(()),
            Some(difference) => Err(BrokerError::Mismatch {
                queue: queue.clone(),
                difference: format!("topic `{topic}`: {difference}"),
            }),
        }
    }

    /// Reads the settings of a topic. A server that has not heard of a new topic yet answers with none.
    async fn describe(&self, topic: &str) -> Result<ConfigResource, Failure> {
        for _ in 0..DESCRIBE_TRIES {
            let options = admin_options(&self.connection.options);
            let configs =
                self.connection.admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await?;
            match configs.into_iter().next() {
                Some(Ok(config)) if !config.entries.is_empty() => return Ok(config),
                _ => tokio::time::sleep(DESCRIBE_DELAY).await,
            }
        }
        Err(Failure::Unavailable(format!("Kafka does not describe the topic `{topic}`")))
    }

    /// What is wrong with the partitions of a topic.
    async fn layout_difference(&self, topic: &str, partitions: usize) -> Result<Option<String>, Failure> {
        let (found, replicas) = self.layout(topic).await?;
        let replication = self.connection.options.replication as usize;
        Ok(if found < partitions {
            Some(format!("it has {found} partitions; expected {partitions} or more"))
        } else if replicas < replication {
            Some(format!("it has {replicas} replicas; expected {replication} or more"))
        } else {
            None
        })
    }

    /// Number of partitions of a topic, and the smallest number of their replicas.
    async fn layout(&self, topic: &str) -> Result<(usize, usize), Failure> {
        for _ in 0..DESCRIBE_TRIES {
            let name = topic.to_owned();
            let read = move |connection: &Connection| -> Result<Vec<usize>, Failure> {
                let metadata =
                    connection.marks.fetch_metadata(Some(&name), connection.options.request_timeout)?;
                let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
                Ok(partitions.map(|partition| partition.replicas().len()).collect())
            };
            let replicas = self.blocking(read).await??;
            if let Some(smallest) = replicas.iter().min() {
                return Ok((replicas.len(), *smallest));
            }
            tokio::time::sleep(DESCRIBE_DELAY).await;
        }
        Err(Failure::Unavailable(format!("Kafka does not describe the topic `{topic}`")))
    }

    /// Commits the beginning of new topics for the group, so that what is published before the first worker counts as its lag.
    async fn commit_start(&self, names: &Names) -> Result<(), Failure> {
        let (names, partitions) =
            (names.clone(), i32::try_from(self.connection.options.partitions).unwrap_or(1));
        let commit = move |connection: &Connection| -> Result<(), Failure> {
            let client = connection.group_client(&names.group)?;
            let mut offsets = TopicPartitionList::new();
            let tiers = i32::try_from(TIERS.len()).unwrap_or(1);
            for (topic, partitions) in [(&names.main, partitions), (&names.wait, tiers)] {
                for partition in 0..partitions {
                    offsets.add_partition_offset(topic, partition, Offset::Offset(0))?;
                }
            }
            // Another process may have joined the group meanwhile, and then its own commits count.
            if let Err(error) = client.commit(&offsets, CommitMode::Sync) {
                tracing::debug!(group = names.group, %error, "committing the beginning");
            }
            Ok(())
        };
        self.blocking(commit).await?
    }

    /// Creates the topic for copies of dead letters, once.
    pub(crate) async fn make_dead_topic(&self, local: &LocalQueue) -> Result<(), Failure> {
        if self.dead_topics.lock().contains(&local.queue) {
            return Ok(());
        }
        let created = self.create_topics(&local.queue, &[(&local.names.dead, 1)]).await;
        created.map_err(|error| Failure::Unavailable(error.to_string()))?;
        self.dead_topics.lock().insert(local.queue.clone());
        Ok(())
    }
}

fn admin_options(options: &Options) -> AdminOptions {
    let timeout = Some(options.request_timeout);
    AdminOptions::new().request_timeout(timeout).operation_timeout(timeout)
}

/// What is wrong with a topic.
fn difference(config: &ConfigResource, options: &Options) -> Option<String> {
    let value = |name: &str| config.get(name).and_then(|entry| entry.value.clone()).unwrap_or_default();
    let number = |name: &str| value(name).parse::<i64>().ok();
    if value("cleanup.policy").contains("compact") {
        return Some("it is compacted, which removes messages; set cleanup.policy=delete".to_owned());
    }
    let wanted = i64::try_from(options.retention.as_millis()).unwrap_or(i64::MAX);
    if let Some(retention) = number("retention.ms").filter(|retention| (0..wanted).contains(retention)) {
        return Some(format!(
            "retention.ms is {retention}; expected {wanted} or more: raise it, or lower `broker.kafka.retention`"
        ));
    }
    if let Some(bytes) = number("retention.bytes").filter(|bytes| *bytes >= 0) {
        return Some(format!("retention.bytes is {bytes}, which removes messages by size; set it to -1"));
    }
    let wanted = i64::try_from(options.max_record()).unwrap_or(i64::MAX);
    if let Some(bytes) = number("max.message.bytes").filter(|bytes| *bytes < wanted) {
        return Some(format!(
            "max.message.bytes is {bytes}; expected {wanted} or more, or a smaller max_message"
        ));
    }
    if value("unclean.leader.election.enable") == "true" {
        return Some(
            "unclean.leader.election.enable is true, which loses confirmed messages; set it to false"
                .to_owned(),
        );
    }
    None
}
