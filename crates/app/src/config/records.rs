//! `[records]`: store of frontier, seen URLs and trails.

use super::{
    secret::{Secret, set},
    tls::TlsSettings,
    value::{Count, Span},
};
use serde::Deserialize;

/// Settings of the records.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordSettings {
    pub(crate) kind: RecordKind,
    pub(crate) postgresql: PostgresSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordKind {
    Embedded,
    Postgresql,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostgresSettings {
    pub(crate) url: Secret,
    pub(crate) max_connections: Count,
    pub(crate) connect_timeout: Span,
    pub(crate) tls: TlsSettings,
}

impl RecordSettings {
    /// URL of the database, which must be set.
    pub(crate) fn set_url(&self) -> Result<&str, String> {
        set(&self.postgresql.url, "records.kind", "postgresql", "records.postgresql.url")
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let url = self.postgresql.url.expose();
        if !url.is_empty() && !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(
                "expected an address such as \"postgres://user:password@host:5432/database\"".to_owned()
            );
        }
        self.postgresql.tls.check()
    }
}
