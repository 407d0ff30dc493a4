//! Errors of the client, converted to those of the contract.

use crate::options::Options;
use crawlway_broker_ledger::LedgerError;
use rdkafka::{error::KafkaError, types::RDKafkaErrorCode};

/// Error of a request to the server or the ledger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Unavailable(String),
    #[error("broker is closed")]
    Closed,
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        Failure::Unavailable(format!("Kafka: {error}"))
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Closed => Failure::Closed,
            error => Failure::Unavailable(error.to_string()),
        }
    }
}

crawlway_broker::convert_errors!(Failure, Failure::Closed);

/// Error of opening a Kafka.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The settings are invalid.
    #[error("the settings of Kafka are invalid: {0}")]
    Invalid(String),
    /// No server answers.
    #[error("Kafka at {servers} does not answer: {detail}")]
    Unreachable {
        /// Addresses of the servers.
        servers: String,
        /// What failed.
        detail: String,
    },
    /// A certificate of a server or the client does not fit, or the servers refuse the login.
    #[error("no connection to Kafka at {servers}: {reason}")]
    Refused {
        /// Addresses of the servers.
        servers: String,
        /// Error of the handshake or the login, and what to do.
        reason: String,
    },
}

/// What to do about an error of a connection, if it is one of certificates or of the login.
pub(crate) fn advice(options: &Options, error: &str) -> Option<String> {
    let table = &options.table;
    if error.contains("SASL authentication error") {
        return Some(format!("correct `{table}.user` and `{table}.password`"));
    }
    if error.contains("mechanism handshake failed") {
        return Some(format!(
            "the servers do not offer it there; correct `{table}.sasl_mechanism`, or `{table}.security_protocol` and the port"
        ));
    }
    options.tls.as_ref()?.advice(error)
}

/// Whether no server is reachable, as the client reports it.
pub(crate) fn is_outage(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Authentication)
    )
}
