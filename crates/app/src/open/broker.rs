//! Opens the brokers in use, and defines their queues.

use super::{kafka, must_be_a_directory, not_while_served, rabbitmq, sqs};
use crate::{
    config::{
        BrokerInUse, ByteSize, Config, KafkaSettings, LedgerKind, RabbitSettings, RecordKind, SqsSettings,
    },
    failure::UsageError,
    flows::{self, FlowModule},
    output::warn,
    permissions,
};
use anyhow::{Context, bail};
use crawlway_broker::{BrokerRouter, MaxLength, QueueBackend, QueueName, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options, Recovery};
use crawlway_gateway::dto::UnavailableQueue;
use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Log target whose messages repeat those of `warn_of_damage`.
pub(crate) const TELLS_DAMAGE_ITSELF: &str = "crawlway_broker_embedded::recover";

const NO_BROKER: &str = "no broker is in use";
/// Directory of the embedded queue, below the data directory; a named broker adds `-NAME`.
const QUEUE_DIRECTORY: &str = "queue";
/// Limits of the sizes of the embedded queue.
const EMBEDDED_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// `[broker]` and `[brokers.NAME]`: settings of a message broker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerSettings {
    kind: BrokerKind,
    embedded: EmbeddedSettings,
    pub(super) kafka: KafkaSettings,
    pub(super) rabbitmq: RabbitSettings,
    pub(super) sqs: SqsSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BrokerKind {
    Embedded,
    Kafka,
    Rabbitmq,
    Sqs,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddedSettings {
    max_message: ByteSize,
    max_segment: ByteSize,
}

impl BrokerSettings {
    /// Whether many processes can share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind != BrokerKind::Embedded
    }

    /// Whether it needs a ledger that is in the data directory with these records.
    pub(crate) fn owns_ledger(&self, records: RecordKind) -> bool {
        let ledger = match self.kind {
            BrokerKind::Embedded | BrokerKind::Rabbitmq => None,
            BrokerKind::Kafka => Some(self.kafka.ledger),
            BrokerKind::Sqs => Some(self.sqs.ledger),
        };
        ledger == Some(LedgerKind::Records) && records == RecordKind::Embedded
    }

    /// Name of the backend in health responses.
    pub(crate) fn backend(&self) -> &'static str {
        match self.kind {
            BrokerKind::Embedded => "embedded",
            BrokerKind::Kafka => "kafka",
            BrokerKind::Rabbitmq => "rabbitmq",
            BrokerKind::Sqs => "sqs",
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (min, max) = EMBEDDED_SIZES;
        let EmbeddedSettings { max_message, max_segment } = self.embedded;
        if [max_message, max_segment].iter().any(|size| *size < min || *size > max) {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        self.kafka.check()?;
        self.rabbitmq.check()?;
        self.sqs.check()
    }
}

impl EmbeddedSettings {
    fn options(self) -> Options {
        Options { max_message: self.max_message.0, max_segment: self.max_segment.0, ..Options::default() }
    }
}

/// When a connection to a server must be up.
#[derive(Debug, Clone, Copy)]
enum Connect {
    Now,
    /// In the background, as soon as the server can be reached.
    Later,
}

/// Brokers that respond.
pub(super) struct ReachableBrokers {
    /// The only one, or a router in front of several.
    pub(super) broker: Arc<dyn QueueBackend>,
    /// Queues of the others.
    pub(super) unavailable: Vec<UnavailableQueue>,
}

/// Opens the existing brokers of these flows, and declares the queues on servers, since only declared ones are known there;
/// creates no files. At least one broker must respond.
pub(super) async fn reachable_brokers(
    config: &Config,
    flows: &[&'static dyn FlowModule],
) -> anyhow::Result<ReachableBrokers> {
    let in_use = config.brokers_in_use(flows);
    for broker in in_use.iter().filter(|broker| !broker.settings.is_shared()) {
        must_exist(&config.data_dir, &directory(config, broker))?;
    }
    let (mut opened, mut unavailable, mut failure) = (Vec::new(), Vec::new(), None);
    for broker in in_use {
        match open_declared(config, &broker, flows).await {
            Ok(handle) => opened.push((handle, broker.queues)),
            Err(error) if broker.settings.is_shared() && !error.is::<UsageError>() => {
                let reason = format!("{error:#}");
                unavailable.extend(
                    broker
                        .queues
                        .iter()
                        .map(|queue| UnavailableQueue { name: queue.to_string(), reason: reason.clone() }),
                );
                failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match (routed(opened), failure) {
        (None, Some(failure)) => Err(failure),
        (broker, _) => Ok(ReachableBrokers { broker: broker.context(NO_BROKER)?, unavailable }),
    }
}

async fn open_declared(
    config: &Config,
    broker: &BrokerInUse<'_>,
    flows: &[&'static dyn FlowModule],
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let handle = open(config, broker, Connect::Now).await?;
    if broker.settings.is_shared() {
        let mut queues = queues_of(config, &*handle, flows);
        queues.retain(|queue| broker.queues.contains(&queue.name));
        if let Err(error) = handle.declare(&queues).await {
            handle.close().await?;
            return Err(error.into());
        }
    }
    Ok(handle)
}

/// Opens the brokers of these flows, and creates them if needed. Several are behind a router.
pub(crate) async fn broker(
    config: &Config,
    flows: &[&'static dyn FlowModule],
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    open_in_use(config, flows, Connect::Now).await
}

/// Opens the brokers of these flows without waiting for a server; they connect in the background.
pub(crate) async fn broker_later(
    config: &Config,
    flows: &[&'static dyn FlowModule],
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    open_in_use(config, flows, Connect::Later).await
}

async fn open_in_use(
    config: &Config,
    flows: &[&'static dyn FlowModule],
    connect: Connect,
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let mut opened = Vec::new();
    for broker in config.brokers_in_use(flows) {
        opened.push((open(config, &broker, connect).await?, broker.queues));
    }
    routed(opened).context(NO_BROKER)
}

/// The only broker, or a router in front of several; `None` if there is none.
fn routed(opened: Vec<(Arc<dyn QueueBackend>, Vec<QueueName>)>) -> Option<Arc<dyn QueueBackend>> {
    let mut opened = opened.into_iter();
    let (first, _) = opened.next()?;
    if opened.as_slice().is_empty() {
        return Some(first);
    }
    let assign = |router: BrokerRouter, (broker, queues)| router.assign(broker, queues);
    Some(Arc::new(opened.fold(BrokerRouter::new(first), assign)))
}

async fn open(
    config: &Config,
    broker: &BrokerInUse<'_>,
    connect: Connect,
) -> anyhow::Result<Arc<dyn QueueBackend>> {
    let BrokerSettings { kind, embedded, kafka, rabbitmq, sqs } = broker.settings;
    match (kind, connect) {
        (BrokerKind::Kafka, Connect::Now) => kafka::open(config, kafka, &broker.table()).await,
        (BrokerKind::Kafka, Connect::Later) => kafka::open_later(config, kafka, &broker.table()),
        (BrokerKind::Rabbitmq, Connect::Now) => rabbitmq::open(rabbitmq, &broker.table()).await,
        (BrokerKind::Rabbitmq, Connect::Later) => rabbitmq::open_later(rabbitmq, &broker.table()),
        (BrokerKind::Sqs, Connect::Now) => sqs::open(config, sqs).await,
        (BrokerKind::Sqs, Connect::Later) => sqs::open_later(config, sqs),
        (BrokerKind::Embedded, _) => {
            not_while_served(config)?;
            permissions::data_directory(&config.data_dir)?;
            let directory = directory(config, broker);
            let broker = EmbeddedBroker::open(&directory, embedded.options())?;
            let Recovery { messages, lost_deliveries, torn_bytes, .. } = broker.recovery();
            tracing::info!(messages, lost_deliveries, torn_bytes, directory = %directory.display(), "queue opened");
            warn_of_damage(&directory, broker.recovery());
            Ok(Arc::new(broker))
        }
    }
}

/// Refuses settings and queues that a broker in use would refuse, without asking a server.
pub(super) fn check_brokers(config: &Config) -> Vec<Result<(), String>> {
    let flows = flows::enabled(config);
    // Without length limits, which depend on the broker.
    let specs: Vec<QueueSpec> = flows
        .iter()
        .flat_map(|flow| flow.queues(config))
        .map(|spec| QueueSpec { max_length: None, ..spec })
        .collect();
    let check = |broker: &BrokerInUse<'_>| {
        let is_here = |spec: &&QueueSpec| broker.queues.contains(&spec.name);
        let here: Vec<QueueSpec> = specs.iter().filter(is_here).cloned().collect();
        match broker.settings.kind {
            BrokerKind::Embedded => Ok(()),
            BrokerKind::Kafka => kafka::check(config, &broker.settings.kafka, &broker.table(), &here),
            BrokerKind::Rabbitmq => rabbitmq::check(&broker.settings.rabbitmq, &broker.table(), &here),
            BrokerKind::Sqs => sqs::check(config, &broker.settings.sqs, &broker.table(), &here),
        }
    };
    config.brokers_in_use(&flows).iter().map(check).collect()
}

/// Directory of an embedded broker.
fn directory(config: &Config, broker: &BrokerInUse<'_>) -> PathBuf {
    if broker.is_default() {
        return config.data_dir.join(QUEUE_DIRECTORY);
    }
    config.data_dir.join(format!("{QUEUE_DIRECTORY}-{}", broker.name))
}

/// Queues of these flows as their brokers can hold them.
pub(crate) fn queues_of(
    config: &Config,
    broker: &dyn QueueBackend,
    flows: &[&'static dyn FlowModule],
) -> Vec<QueueSpec> {
    let adapted = |mut spec: QueueSpec| {
        if let Some(MaxLength::Exact(limit)) = spec.max_length {
            spec.max_length = Some(broker.guarantees_of(&spec.name).max_length(limit));
        }
        spec
    };
    flows.iter().flat_map(|flow| flow.queues(config)).map(adapted).collect()
}

fn must_exist(data: &Path, queue: &Path) -> anyhow::Result<()> {
    must_be_a_directory(data)?;
    let nothing_yet = match fs::read_dir(queue) {
        Ok(mut files) => files.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot look at queue directory `{}`", queue.display()));
        }
    };
    if nothing_yet {
        bail!("data directory `{}` holds no queues yet (looked in `{}`)", data.display(), queue.display());
    }
    Ok(())
}

fn warn_of_damage(directory: &Path, found: &Recovery) {
    for damage in &found.damage {
        warn(&format!(
            "queue directory `{}`: {damage}; the messages in it are lost, all others are whole",
            directory.display()
        ));
    }
    for unfinished in &found.unfinished {
        warn(&format!(
            "queue directory `{}`: {unfinished}, at the end of the log, where a crash in the middle of a write \
             leaves such bytes: most likely no publish of them was confirmed",
            directory.display()
        ));
    }
    if found.damaged_journal_slots > 0 {
        warn(&format!(
            "queue directory `{}`: {} journal entries are unreadable; messages they settled may come again",
            directory.display(),
            found.damaged_journal_slots
        ));
    }
}
