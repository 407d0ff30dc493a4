//! Opens the stores that only PostgreSQL has, in the database of the records.

use super::Records;
use crate::config::Config;
use crawlway_store::{PageIndex, RateLimiter};
use std::sync::Arc;

/// Search index in the database of the records.
pub(super) fn page_index(records: &Records) -> anyhow::Result<Arc<dyn PageIndex>> {
    Ok(Arc::new(records.store.page_index()?))
}

/// Rate limiter in the database of the records.
pub(super) async fn rate_limiter(config: &Config, records: &Records) -> anyhow::Result<Arc<dyn RateLimiter>> {
    Ok(Arc::new(records.store.rate_limiter(config.rate_limit.policy()).await?))
}
