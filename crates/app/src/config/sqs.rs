//! `[broker.sqs]`: settings of Amazon SQS.

use super::{
    kafka::LedgerKind,
    value::{ByteSize, Count, Span},
};
use serde::Deserialize;
use std::time::Duration;

/// Limits of `max_message_size`.
const MESSAGE_SIZES: (ByteSize, ByteSize) = (ByteSize(64 << 10), ByteSize(1 << 20));
/// Limits of `visibility`.
const VISIBILITIES: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(43_200));
/// Maximum of `poll_wait`.
const MAX_POLL_WAIT: Duration = Duration::from_secs(20);
/// Maximum of `pollers`, and of `publish_timeout`: the server forgets deduplication ids after five minutes.
const MAX_POLLERS: u32 = 100;
const MAX_PUBLISH_TIMEOUT: Duration = Duration::from_secs(240);

/// Settings of the account, and of its queues.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "sqs"), expect(dead_code, reason = "this build leaves out SQS"))]
pub(crate) struct SqsSettings {
    pub(crate) region: String,
    pub(crate) endpoint: String,
    pub(crate) profile: String,
    pub(crate) role: String,
    pub(crate) max_message_size: ByteSize,
    pub(crate) visibility: Span,
    pub(crate) poll_wait: Span,
    pub(crate) pollers: Count,
    pub(crate) publish_timeout: Span,
    pub(crate) ledger: LedgerKind,
}

impl SqsSettings {
    pub(crate) fn check(&self) -> Result<(), String> {
        let (min, max) = MESSAGE_SIZES;
        if self.max_message_size < min || self.max_message_size > max {
            return Err("expected 64KiB to 1MiB".to_owned());
        }
        let (min, max) = VISIBILITIES;
        if self.visibility.0 < min || self.visibility.0 > max {
            return Err("expected 20s to 12h".to_owned());
        }
        if self.poll_wait.0 > MAX_POLL_WAIT || self.poll_wait.0 + Duration::from_secs(12) > self.visibility.0
        {
            return Err("expected 20s at most, and 12s less than `visibility`".to_owned());
        }
        if self.pollers.0.get() > MAX_POLLERS {
            return Err(format!("expected 1 to {MAX_POLLERS}"));
        }
        if self.publish_timeout.0 < Duration::from_secs(1) || self.publish_timeout.0 > MAX_PUBLISH_TIMEOUT {
            return Err("expected 1s to 4m".to_owned());
        }
        if !self.endpoint.is_empty() && !self.endpoint.starts_with("http") {
            return Err("expected a URL that starts with https:// or http://".to_owned());
        }
        Ok(())
    }
}
