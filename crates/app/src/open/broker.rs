//! Opens the broker that the settings ask for, and says what is declared on it.

use super::{must_be_a_directory, not_while_served};
use crate::{
    config::{ByteSize, Config, Span, secret::Secret},
    failure::UsageError,
    output::warn,
    worker::worker_name,
};
use anyhow::{Context, bail};
use crawlway_broker::{Broker, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options, Recovery};
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_flows::{inventory::url_inventory, search::crawler_queue};
use serde::Deserialize;
use std::{fs, io, path::Path, sync::Arc, time::Duration};

/// Logs under this name what `warn_of_damage` says already.
pub(crate) const TELLS_DAMAGE_ITSELF: &str = "crawlway_broker_embedded::recover";

/// Where the embedded queue is, below the data directory.
const QUEUE_DIRECTORY: &str = "queue";
/// What the embedded queue can be set to; it would quietly stay within these.
const EMBEDDED_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// What a RabbitMQ server takes at most, whatever it is set to.
const RABBITMQ_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(128 << 20));

/// How long a call of a process that stays up waits for a lost connection: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// `[broker]`: what carries the queues.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerSettings {
    kind: BrokerKind,
    embedded: EmbeddedSettings,
    rabbitmq: RabbitSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BrokerKind {
    Embedded,
    Rabbitmq,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddedSettings {
    max_message: ByteSize,
    max_segment: ByteSize,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RabbitSettings {
    host: String,
    port: u16,
    vhost: String,
    user: String,
    password: Secret,
    management: String,
    max_message: ByteSize,
    confirm_timeout: Span,
}

impl BrokerSettings {
    /// Whether many processes can use it.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind != BrokerKind::Embedded
    }

    /// Whether everything is said of the server that is asked for, or what is missing.
    pub(crate) fn is_set(&self) -> Result<(), String> {
        match self.kind {
            BrokerKind::Embedded => Ok(()),
            BrokerKind::Rabbitmq => self.rabbitmq.is_set(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (least, most) = EMBEDDED_SIZES;
        let EmbeddedSettings { max_message, max_segment } = self.embedded;
        if [max_message, max_segment].iter().any(|size| *size < least || *size > most) {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        let RabbitSettings { max_message, confirm_timeout, management, .. } = &self.rabbitmq;
        let (least, most) = RABBITMQ_SIZES;
        if *max_message < least || *max_message > most {
            return Err("expected 64KiB to 128MiB".to_owned());
        }
        if confirm_timeout.0.is_zero() {
            return Err("expected a duration of at least \"1ms\"".to_owned());
        }
        if !management.is_empty() && !management.starts_with("http://") {
            return Err("expected \"\", or an address such as \"http://rabbitmq:15672\"".to_owned());
        }
        Ok(())
    }
}

impl RabbitSettings {
    fn is_set(&self) -> Result<(), String> {
        if self.host.is_empty() {
            return Err(
                "`broker.kind` is \"rabbitmq\", but `broker.rabbitmq.host` is empty; set it".to_owned()
            );
        }
        if self.user.is_empty() || self.password.expose().is_empty() {
            return Err(
                "`broker.kind` is \"rabbitmq\", but nothing says who we are there; set RABBITMQ_USER and \
                RABBITMQ_PASSWORD, or `broker.rabbitmq.user` and `broker.rabbitmq.password`"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl EmbeddedSettings {
    fn options(self) -> Options {
        Options { max_message: self.max_message.0, max_segment: self.max_segment.0, ..Options::default() }
    }
}

/// Opens the broker for who wants to look: what does not exist yet is an error, and is not created.
pub(super) async fn existing_broker(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Embedded => must_exist(&config.data_dir, &config.data_dir.join(QUEUE_DIRECTORY))?,
        BrokerKind::Rabbitmq => {}
    }
    broker(config).await
}

/// Opens the broker, new if there is none yet.
pub(crate) async fn broker(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => Ok(Arc::new(rabbitmq(&config.broker.rabbitmq).await?)),
        BrokerKind::Embedded => {
            not_while_served(config)?;
            let directory = config.data_dir.join(QUEUE_DIRECTORY);
            let broker = EmbeddedBroker::open(&directory, config.broker.embedded.options())?;
            let Recovery { messages, lost_deliveries, torn_bytes, .. } = broker.recovery();
            tracing::info!(messages, lost_deliveries, torn_bytes, directory = %directory.display(), "queue opened");
            warn_of_damage(&directory, broker.recovery());
            Ok(Arc::new(broker))
        }
    }
}

/// Opens the broker without waiting for a server, which is connected to as soon as it is there.
pub(crate) async fn broker_later(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => {
            let options = rabbitmq_options(&config.broker.rabbitmq)?;
            let options = crawlway_broker_rabbitmq::Options { patience: PATIENCE, ..options };
            Ok(Arc::new(RabbitBroker::connect_later(options)))
        }
        BrokerKind::Embedded => broker(config).await,
    }
}

/// What is declared of the queue of URLs on this broker.
pub(crate) fn url_queue(config: &Config, broker: &dyn Broker) -> QueueSpec {
    config.inventory.queue(config.queue.spec(url_inventory()), &broker.guarantees())
}

async fn rabbitmq(settings: &RabbitSettings) -> anyhow::Result<RabbitBroker> {
    let RabbitSettings { host, port, .. } = settings;
    let options = rabbitmq_options(settings)?;
    RabbitBroker::connect(options).await.with_context(|| format!("cannot use RabbitMQ at {host}:{port}"))
}

fn rabbitmq_options(settings: &RabbitSettings) -> anyhow::Result<crawlway_broker_rabbitmq::Options> {
    let RabbitSettings { host, port, vhost, user, password, management, max_message, confirm_timeout } =
        settings;
    settings.is_set().map_err(UsageError)?;
    Ok(crawlway_broker_rabbitmq::Options {
        host: host.clone(),
        port: *port,
        user: user.clone(),
        password: password.expose().to_owned(),
        vhost: vhost.clone(),
        management: (!management.is_empty()).then(|| management.clone()),
        // So it is with every message of every flow.
        content_type: Some("application/json".to_owned()),
        name: format!("crawlway {}", worker_name()),
        max_message: max_message.0,
        confirm_timeout: confirm_timeout.0,
        ..Default::default()
    })
}

/// The queue in which pages wait to be indexed.
pub(crate) fn pages_queue(config: &Config) -> QueueSpec {
    let spec = config.queue.spec(crawler_queue());
    let prefetch = spec.prefetch.max(config.search.least_prefetch());
    spec.prefetch(prefetch)
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
             leaves such bytes: most likely nobody was told that they are safe",
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
