//! Health of the connection: whether the servers are reachable, and why not.
//!
//! ```text
//!        ┌────────── a request succeeded ───────────┐
//!        ▼                                          │
//!   reachable ── all servers are down ──▶ down ── probe every second
//! ```

use crate::error::is_outage;
use parking_lot::Mutex;
use rdkafka::{ClientContext, consumer::ConsumerContext, error::KafkaError};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether the servers are reachable, as their clients report it.
#[derive(Debug, Default)]
pub(crate) struct Health {
    down: AtomicBool,
    /// Error of the last connection that failed.
    reason: Mutex<String>,
}

impl Health {
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Error of the last connection that failed.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().clone()
    }

    pub(crate) fn set_down(&self, down: bool) {
        if self.down.swap(down, Ordering::Relaxed) != down {
            if down {
                tracing::warn!(reason = *self.reason.lock(), "Kafka is unreachable");
            } else {
                self.reason.lock().clear();
                tracing::info!("Kafka is reachable again");
            }
        }
    }

    /// Keeps the error of a failed connection: calls fail with a time-out alone.
    fn record_reason(&self, message: &str) {
        // `[thrd:NAME]: ` is the place in the client.
        let reason = message.split_once("]: ").map_or(message, |(_, reason)| reason);
        reason.clone_into(&mut self.reason.lock());
    }

    pub(crate) fn record(&self, error: &KafkaError) {
        if is_outage(error) {
            self.set_down(true);
        }
    }
}

/// Callbacks of a client: errors and log lines.
#[derive(Debug, Clone)]
pub(crate) struct Callbacks(pub(crate) Arc<Health>);

impl ClientContext for Callbacks {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "error of a Kafka client");
        self.0.record(&error);
    }

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        if facility == "FAIL" {
            self.0.record_reason(message);
        }
        tracing::debug!(?level, facility, message, "Kafka client");
    }
}

impl ConsumerContext for Callbacks {}
