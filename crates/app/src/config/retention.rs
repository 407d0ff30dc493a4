//! `[retention]`: how long trails and ended crawls are kept.

use super::value::Keep;
use serde::Deserialize;

/// Retention periods.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionSettings {
    /// Entries of trails.
    pub(crate) trails: Keep,
    /// Ended crawls with all their URLs.
    pub(crate) ended_crawls: Keep,
}
