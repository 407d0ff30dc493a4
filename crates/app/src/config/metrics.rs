//! `[metrics]`: where a process without the gateway serves health checks and metrics.

use super::gateway::listen_at;
use serde::Deserialize;
use std::net::SocketAddr;

/// Settings of health checks and metrics of a process without the gateway.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricsSettings {
    listen: String,
}

impl MetricsSettings {
    /// Key of the setting, for errors.
    pub(crate) const LISTEN: &str = "metrics.listen";

    /// Listen address, if it is set.
    pub(crate) fn listen(&self) -> Result<Option<SocketAddr>, String> {
        if self.listen.is_empty() { Ok(None) } else { listen_at(&self.listen).map(Some) }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.listen().map(drop)
    }
}
