//! Opens the configured broker, and defines its queues.

use super::{must_be_a_directory, not_while_served, rabbitmq};
use crate::{
    config::{ByteSize, Config, RabbitSettings},
    output::warn,
    private,
};
use anyhow::{Context, bail};
use crawlway_broker::{QueueBackend, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options, Recovery};
use crawlway_flows::{inventory::url_inventory, search::crawler_queue};
use serde::Deserialize;
use std::{fs, io, path::Path, sync::Arc};

/// Log target whose messages repeat those of `warn_of_damage`.
pub(crate) const TELLS_DAMAGE_ITSELF: &str = "crawlway_broker_embedded::recover";

/// Directory of the embedded queue, below the data directory.
const QUEUE_DIRECTORY: &str = "queue";
/// Limits of the sizes of the embedded queue.
const EMBEDDED_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// `[broker]`: settings of the message broker.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerSettings {
    kind: BrokerKind,
    embedded: EmbeddedSettings,
    pub(super) rabbitmq: RabbitSettings,
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

impl BrokerSettings {
    /// Whether many processes can share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.kind != BrokerKind::Embedded
    }

    /// Name of the backend in health responses.
    pub(crate) fn backend(&self) -> &'static str {
        match self.kind {
            BrokerKind::Embedded => "embedded",
            BrokerKind::Rabbitmq => "rabbitmq",
        }
    }

    /// Refuses settings and queues that the broker would refuse, without asking a server.
    pub(super) fn check_to_open(&self, queues: &[QueueSpec]) -> Result<(), String> {
        match self.kind {
            BrokerKind::Embedded => Ok(()),
            BrokerKind::Rabbitmq => rabbitmq::check(&self.rabbitmq, queues),
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let (min, max) = EMBEDDED_SIZES;
        let EmbeddedSettings { max_message, max_segment } = self.embedded;
        if [max_message, max_segment].iter().any(|size| *size < min || *size > max) {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        self.rabbitmq.check()
    }
}

impl EmbeddedSettings {
    fn options(self) -> Options {
        Options { max_message: self.max_message.0, max_segment: self.max_segment.0, ..Options::default() }
    }
}

/// Opens an existing broker; creates nothing.
pub(super) async fn existing_broker(config: &Config) -> anyhow::Result<Arc<dyn QueueBackend>> {
    match config.broker.kind {
        BrokerKind::Embedded => must_exist(&config.data_dir, &config.data_dir.join(QUEUE_DIRECTORY))?,
        BrokerKind::Rabbitmq => {}
    }
    broker(config).await
}

/// Opens the broker, and creates it if needed.
pub(crate) async fn broker(config: &Config) -> anyhow::Result<Arc<dyn QueueBackend>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => rabbitmq::open(&config.broker.rabbitmq).await,
        BrokerKind::Embedded => {
            not_while_served(config)?;
            private::data_directory(&config.data_dir)?;
            let directory = config.data_dir.join(QUEUE_DIRECTORY);
            let broker = EmbeddedBroker::open(&directory, config.broker.embedded.options())?;
            let Recovery { messages, lost_deliveries, torn_bytes, .. } = broker.recovery();
            tracing::info!(messages, lost_deliveries, torn_bytes, directory = %directory.display(), "queue opened");
            warn_of_damage(&directory, broker.recovery());
            Ok(Arc::new(broker))
        }
    }
}

/// Opens the broker without waiting for a server; it connects in the background.
pub(crate) async fn broker_later(config: &Config) -> anyhow::Result<Arc<dyn QueueBackend>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => rabbitmq::open_later(&config.broker.rabbitmq),
        BrokerKind::Embedded => broker(config).await,
    }
}

/// Specification of the queue of URLs on this broker.
pub(crate) fn url_queue(config: &Config, broker: &dyn QueueBackend) -> QueueSpec {
    config.inventory.queue(config.queue.spec(url_inventory()), &broker.guarantees())
}

/// Queues of all flows without length limits, which depend on the broker.
pub(super) fn queues_without_limits(config: &Config) -> Vec<QueueSpec> {
    vec![pages_queue(config), config.queue.spec(url_inventory())]
}

/// Queue of pages for the search index.
pub(crate) fn pages_queue(config: &Config) -> QueueSpec {
    let spec = config.queue.spec(crawler_queue());
    let prefetch = spec.prefetch.max(config.search.min_prefetch());
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
