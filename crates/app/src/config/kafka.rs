//! `[broker.kafka]`: settings of Apache Kafka.

use super::{
    secret::Secret,
    tls::TlsSettings,
    value::{ByteSize, Count, Number, Span},
};
use serde::Deserialize;
use std::time::Duration;

/// Limits of `max_message`.
const MESSAGE_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(64 << 20));
/// Limits of `session_timeout`.
const SESSION_TIMEOUTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1800));
/// Maximum of `max_gap`: what fits into the metadata of a commit.
const MAX_GAP: u32 = 24_000;

/// Settings of the connection to Kafka, and of its topics.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "this build leaves out Kafka"))]
pub(crate) struct KafkaSettings {
    pub(crate) servers: String,
    pub(crate) security_protocol: SecurityProtocol,
    pub(crate) sasl_mechanism: SaslMechanism,
    pub(crate) user: String,
    pub(crate) password: Secret,
    pub(crate) group_prefix: String,
    pub(crate) partitions: Count,
    pub(crate) replication: Number,
    pub(crate) retention: Span,
    pub(crate) max_message: ByteSize,
    pub(crate) session_timeout: Span,
    pub(crate) max_gap: Count,
    pub(crate) publish_timeout: Span,
    pub(crate) ledger: LedgerKind,
    pub(crate) tls: TlsSettings,
}

/// Encryption and login of connections, in Kafka's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

#[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "this build leaves out Kafka"))]
impl SecurityProtocol {
    pub(crate) fn has_tls(self) -> bool {
        matches!(self, SecurityProtocol::Ssl | SecurityProtocol::SaslSsl)
    }

    pub(crate) fn has_sasl(self) -> bool {
        matches!(self, SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl)
    }
}

/// SASL mechanism, in Kafka's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
}

/// Store of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerKind {
    Records,
    Redis,
}

impl KafkaSettings {
    pub(crate) fn check(&self) -> Result<(), String> {
        let (min, max) = MESSAGE_SIZES;
        if self.max_message < min || self.max_message > max {
            return Err("expected 64KiB to 64MiB".to_owned());
        }
        let (min, max) = SESSION_TIMEOUTS;
        if self.session_timeout.0 < min || self.session_timeout.0 > max {
            return Err("expected 1s to 30m".to_owned());
        }
        if self.max_gap.0.get() > MAX_GAP {
            return Err(format!("expected 1 to {MAX_GAP}"));
        }
        if self.publish_timeout.0 < Duration::from_secs(1) || self.retention.0.is_zero() {
            return Err("expected a duration of at least \"1s\"".to_owned());
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.group_prefix.is_empty() || !self.group_prefix.chars().all(is_name) {
            return Err("expected letters, digits, `.`, `_` and `-`".to_owned());
        }
        self.tls.check()
    }
}
