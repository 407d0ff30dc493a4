//! `[metrics]`: where a process without the gateway tells how it is.

use super::gateway::listen_at;
use serde::Deserialize;
use std::net::SocketAddr;

/// Where a process without the gateway tells how it is.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricsSettings {
    listen: String,
}

impl MetricsSettings {
    /// The setting itself, as errors name it.
    pub(crate) const LISTEN: &str = "metrics.listen";

    /// Where it listens, if it does.
    pub(crate) fn listen(&self) -> Result<Option<SocketAddr>, String> {
        if self.listen.is_empty() { Ok(None) } else { listen_at(&self.listen).map(Some) }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.listen().map(drop)
    }
}
