//! `[redis]` and `[seen]`: settings of Redis, and the backend of seen URLs.

use super::{secret::Secret, tls::TlsSettings};
use serde::Deserialize;

/// Settings of Redis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisSettings {
    pub(crate) url: Secret,
    pub(crate) prefix: String,
    pub(crate) tls: TlsSettings,
}

/// Backend of seen URLs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeenSettings {
    pub(crate) kind: SeenKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SeenKind {
    Records,
    Redis,
}

impl RedisSettings {
    /// URL of the server, which must be set because of `setting`.
    #[cfg(feature = "redis")]
    pub(crate) fn set_url(&self, setting: &str) -> Result<&str, String> {
        super::secret::set(&self.url, setting, "redis", "redis.url")
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let url = self.url.expose();
        if !url.is_empty() && !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err(
                "expected an address such as \"redis://user:password@host:6379/0\", or with TLS \"rediss://…\"".to_owned()
            );
        }
        if self.prefix.is_empty() {
            return Err("expected a text that is not empty".to_owned());
        }
        self.tls.check()
    }
}
