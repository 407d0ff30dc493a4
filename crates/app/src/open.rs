//! Opens what the settings ask for. The only file that names backends.

use crate::{
    config::{ByteSize, Config},
    output::warn,
};
use anyhow::{Context, bail};
use crawlway_broker::Broker;
use crawlway_broker_embedded::{EmbeddedBroker, Options, Recovery};
use crawlway_store::gate::Gate;
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use serde::Deserialize;
use std::{fs, io, path::Path, sync::Arc};

/// Logs under this name what `warn_of_damage` says already.
pub(crate) const TELLS_DAMAGE_ITSELF: &str = "crawlway_broker_embedded::recover";

/// Where the embedded queue is, below the data directory.
const QUEUE_DIRECTORY: &str = "queue";
/// What the embedded queue can be set to; it would quietly stay within these.
const EMBEDDED_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 30));

/// `[broker]`: what carries the queues.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerSettings {
    kind: BrokerKind,
    embedded: EmbeddedSettings,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum BrokerKind {
    Embedded,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmbeddedSettings {
    max_message: ByteSize,
    max_segment: ByteSize,
}

impl BrokerSettings {
    pub(crate) fn check(&self) -> Result<(), String> {
        let (least, most) = EMBEDDED_SIZES;
        let EmbeddedSettings { max_message, max_segment } = self.embedded;
        if [max_message, max_segment].iter().any(|size| *size < least || *size > most) {
            return Err("expected 64KiB to 1GiB".to_owned());
        }
        Ok(())
    }
}

/// Opens the broker for who wants to look: what does not exist yet is an error, and is not created.
pub(crate) fn existing_broker(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Embedded => {
            let directory = config.data_dir.join(QUEUE_DIRECTORY);
            must_exist(&config.data_dir, &directory)?;
            let broker = EmbeddedBroker::open(&directory, config.broker.embedded.options())?;
            let Recovery { messages, lost_deliveries, torn_bytes, .. } = broker.recovery();
            tracing::info!(messages, lost_deliveries, torn_bytes, directory = %directory.display(), "queue opened");
            warn_of_damage(&directory, broker.recovery());
            Ok(Arc::new(broker))
        }
    }
}

/// The gate that every request passes. It lives in this process and is as old as that.
pub(crate) fn gate() -> anyhow::Result<Arc<dyn Gate>> {
    Ok(Arc::new(EmbeddedGate::open(GateOptions::default())?))
}

impl EmbeddedSettings {
    fn options(self) -> Options {
        Options { max_message: self.max_message.0, max_segment: self.max_segment.0, ..Options::default() }
    }
}

fn must_exist(data: &Path, queue: &Path) -> anyhow::Result<()> {
    match fs::metadata(data) {
        Ok(found) if !found.is_dir() => {
            bail!("`{}` is not a directory; name the data directory with --data", data.display())
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no data directory `{}`; name another with --data or `data_dir`", data.display())
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot look at data directory `{}`", data.display()));
        }
    }
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
