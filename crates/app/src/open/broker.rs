//! Opens the broker that the settings ask for, and says what is declared on it.

use super::{must_be_a_directory, not_while_served};
use crate::{
    config::{ByteSize, Config, Span, secret::Secret},
    failure::UsageError,
    output::warn,
    private,
    worker::worker_name,
};
use anyhow::{Context, bail};
use crawlway_broker::{Broker, QueueSpec};
use crawlway_broker_embedded::{EmbeddedBroker, Options, Recovery};
use crawlway_broker_rabbitmq::RabbitBroker;
use crawlway_flows::{inventory::url_inventory, search::crawler_queue};
use serde::Deserialize;
use std::{fs, io, path::Path, sync::Arc, time::Duration};
use url::Url;

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
    url: Secret,
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

    /// What it is, as health names it.
    pub(crate) fn backend(&self) -> &'static str {
        match self.kind {
            BrokerKind::Embedded => "embedded",
            BrokerKind::Rabbitmq => "rabbitmq",
        }
    }

    /// Refuses settings with which a broker could not be opened, or would not take these queues. Asks no server.
    pub(super) fn check_to_open(&self, queues: &[QueueSpec]) -> Result<(), String> {
        match self.kind {
            BrokerKind::Embedded => Ok(()),
            BrokerKind::Rabbitmq => {
                let options = self.rabbitmq.options()?;
                queues.iter().try_for_each(|queue| options.check(queue)).map_err(|error| error.to_string())
            }
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
        self.rabbitmq.address()?;
        if !management.is_empty() && !management.starts_with("http://") {
            return Err("expected \"\", or an address such as \"http://rabbitmq:15672\"".to_owned());
        }
        Ok(())
    }
}

/// How a server is reached, and as whom.
#[derive(Debug)]
struct RabbitAddress {
    host: String,
    port: u16,
    vhost: String,
    user: String,
    password: Secret,
}

impl RabbitSettings {
    /// What `url` names, and from the other settings what it leaves out.
    fn address(&self) -> Result<RabbitAddress, String> {
        let mut address = RabbitAddress {
            host: self.host.clone(),
            port: self.port,
            vhost: self.vhost.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
        };
        if self.url.expose().is_empty() {
            return Ok(address);
        }
        let expected = || "expected an address such as \"amqp://user:password@host:5672/vhost\"".to_owned();
        let url = Url::parse(self.url.expose()).map_err(|_| expected())?;
        if url.scheme() == "amqps" {
            return Err("TLS to RabbitMQ is not there yet; expected an address that begins with \"amqp://\""
                .to_owned());
        }
        let host = url.host_str().filter(|host| !host.is_empty());
        let (Some(host), "amqp", None, None) = (host, url.scheme(), url.query(), url.fragment()) else {
            return Err(expected());
        };
        let decoded = |text: &str| unescaped(text).ok_or_else(expected);
        address.host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        address.port = url.port().unwrap_or(address.port);
        if !url.username().is_empty() {
            address.user = decoded(url.username())?;
        }
        if let Some(password) = url.password() {
            address.password = Secret::new(decoded(password)?);
        }
        // With nothing after it, the slash says nothing.
        if let Some(vhost) = url.path().strip_prefix('/').filter(|vhost| !vhost.is_empty()) {
            address.vhost = decoded(vhost)?;
        }
        Ok(address)
    }

    fn options(&self) -> Result<crawlway_broker_rabbitmq::Options, String> {
        let RabbitAddress { host, port, vhost, user, password } = self.address()?;
        if host.is_empty() {
            return Err(
                "`broker.kind` is \"rabbitmq\", but nothing says where it is; set `broker.rabbitmq.url` or \
                 `broker.rabbitmq.host`"
                    .to_owned(),
            );
        }
        if user.is_empty() || password.expose().is_empty() {
            return Err(
                "`broker.kind` is \"rabbitmq\", but nothing says who we are there; set RABBITMQ_USER and \
                RABBITMQ_PASSWORD, or `broker.rabbitmq.user` and `broker.rabbitmq.password`, or both in \
                `broker.rabbitmq.url`"
                    .to_owned(),
            );
        }
        let Self { management, max_message, confirm_timeout, .. } = self;
        Ok(crawlway_broker_rabbitmq::Options {
            host,
            port,
            user,
            password: password.expose().to_owned(),
            vhost,
            management: (!management.is_empty()).then(|| management.clone()),
            // So it is with every message of every flow.
            content_type: Some("application/json".to_owned()),
            name: format!("crawlway {}", worker_name()),
            max_message: max_message.0,
            confirm_timeout: confirm_timeout.0,
            ..Default::default()
        })
    }
}

/// A part of an address without its percent signs; none if that is no text.
fn unescaped(text: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.split_at_checked(2)).flatten();
        let octet =
            escaped.and_then(|(digits, _)| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (octet, escaped) {
            (Some(octet), Some((_, after))) => {
                octets.push(octet);
                rest = after;
            }
            _ => {
                octets.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(octets).ok()
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

/// Opens the broker without waiting for a server, which is connected to as soon as it is there.
pub(crate) async fn broker_later(config: &Config) -> anyhow::Result<Arc<dyn Broker>> {
    match config.broker.kind {
        BrokerKind::Rabbitmq => {
            let options = config.broker.rabbitmq.options().map_err(UsageError)?;
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
    let options = settings.options().map_err(UsageError)?;
    let place = format!("{}:{}", options.host, options.port);
    RabbitBroker::connect(options).await.with_context(|| format!("cannot use RabbitMQ at {place}"))
}

/// The queues of all flows, but for limits, which depend on the broker.
pub(super) fn queues_without_limits(config: &Config) -> Vec<QueueSpec> {
    vec![pages_queue(config), config.queue.spec(url_inventory())]
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

#[cfg(test)]
mod tests {
    use crate::config::tests::given;

    fn reached(variables: &[(&str, &str)]) -> String {
        let config = given(variables).unwrap().config;
        let options = config.broker.rabbitmq.options().unwrap();
        let crawlway_broker_rabbitmq::Options { user, password, host, port, vhost, .. } = options;
        format!("{user} {password} {host} {port} {vhost}")
    }

    #[test]
    fn an_address_says_where_rabbitmq_is_and_as_whom_and_leaves_the_rest_to_the_other_settings() {
        const URL: &str = "CRAWLWAY_BROKER__RABBITMQ__URL";
        let whole = "amqp://crawl:p%40ss%2Fw%C3%B6rd@broker.example:5673/my%2Fhost";
        assert_eq!(reached(&[(URL, whole)]), "crawl p@ss/wörd broker.example 5673 my/host");
        let account = [("RABBITMQ_USER", "u"), ("RABBITMQ_PASSWORD", "p")];
        let with = |url: &str| reached(&[&account[..], &[(URL, url)]].concat());
        assert_eq!(with("amqp://broker.example"), "u p broker.example 5672 /");
        assert_eq!(with("amqp://broker.example/"), "u p broker.example 5672 /");
        assert_eq!(with("amqp://other:q@[::1]/crawl"), "other q ::1 5672 crawl");
        assert_eq!(with(""), "u p rabbitmq 5672 /");
    }

    #[test]
    fn a_wrong_address_of_rabbitmq_is_refused_without_its_password() {
        for wrong in [
            "broker.example:5672",
            "http://u:hunter2@broker.example",
            "amqp://u:hunter2@",
            "amqps://u:hunter2@broker.example",
            "amqp://u:hunter2@broker.example?heartbeat=5",
            "amqp://u:hunter2@broker.example/%ff",
        ] {
            let told = given(&[("CRAWLWAY_BROKER__RABBITMQ__URL", wrong)]).unwrap_err().to_string();
            assert!(told.contains("CRAWLWAY_BROKER__RABBITMQ__URL") && told.contains("amqp://"), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
