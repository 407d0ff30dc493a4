//! Options of a Kafka, and the settings of its clients.

use crate::names;
use crawlway_tls::ClientTls;
use rdkafka::ClientConfig;
use std::{fmt, time::Duration};

/// Room in a record for what the backend adds to a message: key, bookkeeping headers and framing. A message of
/// [`Options::max_message`] by default then fits the default `max.message.bytes` of a topic.
pub(crate) const RECORD_OVERHEAD: u64 = 48_588;

/// Address, credentials, topic settings and timeouts of a Kafka.
#[derive(Clone)]
pub struct Options {
    /// Addresses of some of the servers: `HOST:PORT`, separated by commas.
    pub servers: String,
    /// TLS client; without it connections are not encrypted.
    pub tls: Option<ClientTls>,
    /// User and password, if the servers ask for them.
    pub sasl: Option<Sasl>,
    /// Table of these settings, for errors.
    pub table: String,
    /// Prefix of the names of consumer groups.
    pub group_prefix: String,
    /// Name of this client in logs and quotas of the servers.
    pub client_id: String,
    /// Number of partitions of a new topic.
    pub partitions: u32,
    /// Number of replicas of a new topic, and minimum of an existing one; 0 is the default of the servers.
    pub replication: u32,
    /// Retention of a new topic, and minimum of an existing one.
    pub retention: Duration,
    /// Maximum size of a message in bytes, headers included.
    pub max_message: u64,
    /// Time after which a lost worker's partitions go to another one.
    pub session_timeout: Duration,
    /// Maximum number of offsets above the commit watermark of a partition.
    pub max_gap: u32,
    /// Timeout of a publisher confirm. After it, the outcome of a publish is unknown.
    pub publish_timeout: Duration,
    /// Timeout of any other request, and of connecting.
    pub request_timeout: Duration,
    /// Interval of removing settled records of wait topics, and old rows of the ledger.
    pub cleanup_interval: Duration,
}

/// SASL mechanism of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password itself is sent.
    Plain,
    /// Challenge and response, with SHA-256.
    ScramSha256,
    /// Challenge and response, with SHA-512.
    ScramSha512,
}

impl SaslMechanism {
    fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// Credentials of a client.
#[derive(Clone)]
pub struct Sasl {
    /// Mechanism, which the servers must have enabled.
    pub mechanism: SaslMechanism,
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: "kafka:9092".into(),
            tls: None,
            sasl: None,
            table: "broker.kafka".into(),
            group_prefix: names::DEFAULT_PREFIX.into(),
            client_id: "crawlway".into(),
            partitions: 8,
            replication: 0,
            retention: Duration::from_secs(7 * 24 * 60 * 60),
            max_message: 976 << 10,
            session_timeout: Duration::from_secs(10),
            max_gap: 20_000,
            publish_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            cleanup_interval: Duration::from_secs(600),
        }
    }
}

/// Omits the password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("servers", &self.servers)
            .field("user", &self.sasl.as_ref().map(|sasl| &sasl.user))
            .finish_non_exhaustive()
    }
}

impl Options {
    /// Maximum size of a record, which a topic must allow.
    pub(crate) fn max_record(&self) -> u64 {
        self.max_message + RECORD_OVERHEAD
    }

    /// Settings of every client.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.servers)
            .set("client.id", &self.client_id)
            .set("socket.keepalive.enable", "true")
            .set("socket.timeout.ms", "30000")
            .set("reconnect.backoff.ms", "100")
            .set("reconnect.backoff.max.ms", "2000")
            .set("topic.metadata.refresh.interval.ms", "10000")
            .set("allow.auto.create.topics", "false")
            .set("log.connection.close", "false");
        let protocol = match (&self.sasl, &self.tls) {
            (None, None) => "plaintext",
            (None, Some(_)) => "ssl",
            (Some(_), None) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(tls) = &self.tls {
            let text = |pem: &[u8]| String::from_utf8_lossy(pem).into_owned();
            match tls.ca() {
                Some(ca) => config.set("ssl.ca.pem", text(ca)),
                // The CA certificates of the system.
                None => config.set("ssl.ca.location", "probe"),
            };
            if let Some((certificate, key)) = tls.identity() {
                config.set("ssl.certificate.pem", text(certificate)).set("ssl.key.pem", text(key));
            }
        }
        if let Some(sasl) = &self.sasl {
            config
                .set("sasl.mechanism", sasl.mechanism.name())
                .set("sasl.username", &sasl.user)
                .set("sasl.password", &sasl.password);
        }
        config
    }

    /// Settings of the producer: idempotent, confirmed by all replicas in sync.
    pub(crate) fn producer(&self) -> ClientConfig {
        let mut config = self.client();
        config
            .set("enable.idempotence", "true")
            .set("acks", "all")
            // Our own limit is checked before. Copies of other programs' messages may be larger.
            .set("message.max.bytes", self.max_record().max(64 << 20).to_string())
            .set("message.timeout.ms", self.publish_timeout.as_millis().to_string())
            // A missing topic is else reported after 30 s.
            .set("topic.metadata.propagation.max.ms", "10000")
            // Keys land where Java producers put them.
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "1")
            .set("queue.buffering.max.kbytes", "65536");
        config
    }

    /// Settings of a client that reads and writes offsets of a group, and never joins it.
    pub(crate) fn group_client(&self, group: &str) -> ClientConfig {
        let mut config = self.client();
        config.set("group.id", group).set("enable.auto.commit", "false");
        config
    }

    /// Settings of the consumer of a queue.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let session = self.session_timeout.as_millis();
        let mut config = self.group_client(group);
        config
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", session.to_string())
            .set("heartbeat.interval.ms", (session / 4).clamp(200, 1000).to_string())
            .set("max.poll.interval.ms", session.max(60_000).to_string())
            .set("fetch.wait.max.ms", "100")
            .set("fetch.queue.backoff.ms", "20")
            .set("queued.min.messages", "1000")
            .set("queued.max.messages.kbytes", "8192")
            // A single record may be larger than the other limits.
            .set("receive.message.max.bytes", (100 << 20).to_string());
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_password() {
        let sasl = Sasl { mechanism: SaslMechanism::Plain, user: "user".into(), password: "hunter2".into() };
        let options = Options { sasl: Some(sasl), ..Options::default() };
        let shown = format!("{options:?}");
        assert!(shown.contains("user") && !shown.contains("hunter2"), "{shown}");
    }
}
