//! `[requests]`: settings of the flow `requests` and its store.

use super::value::{ByteSize, Count, Keep, Span};
use crawlway_broker::QueueSpec;
use crawlway_fetch::Request;
use crawlway_flows::requests::{MAX_RESPONSE_BYTES, RequestSettings};
use crawlway_store::{RequestPolicy, requests::Email};
use serde::Deserialize;
use std::time::Duration;

/// Settings of the flow `requests`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestTable {
    broker: String,
    default_email: String,
    pub(crate) store: RequestKind,
    concurrency: Count,
    timeout: Span,
    publish_timeout: Span,
    max_attempts: Count,
    max_response: ByteSize,
    keep_late_answers: bool,
    /// Ended requests.
    pub(crate) retention: Keep,
}

/// Store of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestKind {
    /// The store of the other records.
    Records,
    /// Hashes in Redis, which other programs can read.
    Redis,
}

impl RequestTable {
    /// Name of the broker of the flow's queues; empty for that of all queues.
    pub(crate) fn broker(&self) -> &str {
        &self.broker
    }

    /// User of requests whose caller names none.
    pub(crate) fn default_email(&self) -> Option<Email> {
        Email::normalised(&self.default_email).ok()
    }

    /// Specification of the queue of requests.
    pub(crate) fn queue(&self, spec: QueueSpec) -> QueueSpec {
        spec.prefetch(self.concurrency.0.get())
    }

    /// Deadlines of the store.
    pub(crate) fn policy(&self) -> RequestPolicy {
        RequestPolicy {
            timeout: self.timeout.0,
            publish_timeout: self.publish_timeout.0,
            keep_late_answers: self.keep_late_answers,
        }
    }

    /// Settings of the flow, with this request as the template of its fetches.
    pub(crate) fn settings(&self, request: Request, drain: Duration, shared_trails: bool) -> RequestSettings {
        RequestSettings {
            request,
            timeout: self.timeout.0,
            max_attempts: self.max_attempts.0.get(),
            max_response_bytes: usize::try_from(self.max_response.0).unwrap_or(usize::MAX),
            drain,
            shared_trails,
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.timeout.0 < Duration::from_secs(1) || self.publish_timeout.0 < Duration::from_secs(1) {
            return Err("expected a duration of at least \"1s\"".to_owned());
        }
        if self.max_response < ByteSize(64 << 10) || self.max_response > ByteSize(MAX_RESPONSE_BYTES as u64) {
            return Err("expected 64KiB to 16MiB".to_owned());
        }
        if !self.default_email.is_empty() {
            Email::normalised(&self.default_email).map_err(|error| error.to_string())?;
        }
        if self.concurrency.0.get() > 10_000 {
            return Err("expected up to 10000".to_owned());
        }
        Ok(())
    }
}
