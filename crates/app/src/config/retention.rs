//! `[retention]`: how long what is over is kept.

use super::value::Keep;
use serde::Deserialize;

/// How long what is over is kept.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionSettings {
    /// Entries of trails.
    pub(crate) trails: Keep,
    /// Crawls that have ended, with all their URLs.
    pub(crate) ended_crawls: Keep,
}
