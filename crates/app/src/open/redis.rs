//! Opens the stores in Redis.

use crate::{config::Config, failure::UsageError};
use anyhow::Context;
use crawlway_store::{RequestStore, SeenUrls, StoreError, Tokens, rate_limiter::RateLimiter};
use crawlway_store_redis::{RedisOptions, RedisStore};
use std::{sync::Arc, time::Duration};

/// Store of seen URLs; `within` overrides the connect timeout.
pub(super) async fn seen_urls(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn SeenUrls>> {
    Ok(Arc::new(open(config, "seen.kind", within).await?))
}

/// Rate limiter; `within` overrides the connect timeout.
pub(super) async fn rate_limiter(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn RateLimiter>> {
    let store = open(config, "rate_limit.kind", within).await?;
    Ok(Arc::new(store.rate_limiter(config.rate_limit.policy()).await?))
}

/// Requests of users; `within` overrides the connect timeout.
pub(super) async fn requests(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn RequestStore>> {
    Ok(Arc::new(open(config, "requests.store", within).await?.requests(config.requests.policy())))
}

/// Access tokens; `within` overrides the connect timeout.
pub(super) async fn tokens(config: &Config, within: Option<Duration>) -> anyhow::Result<Arc<dyn Tokens>> {
    Ok(Arc::new(open(config, "requests.store", within).await?.tokens()))
}

/// Ledger of brokers; `within` overrides the connect timeout.
#[cfg(any(feature = "kafka", feature = "sqs"))]
pub(super) async fn ledger(
    config: &Config,
    within: Option<Duration>,
) -> anyhow::Result<Arc<dyn crawlway_store::Ledger>> {
    let store = open(config, "the ledger of a broker", within).await?;
    Ok(Arc::new(store.ledger(crawlway_store::LedgerPolicy::default())?))
}

/// Refuses settings that cannot work, without asking the server. `setting` is the one that selects Redis.
pub(super) fn check(config: &Config, setting: &str) -> Result<(), String> {
    options(config, setting, None)?.check().map_err(|error: StoreError| error.to_string())
}

async fn open(config: &Config, setting: &str, within: Option<Duration>) -> anyhow::Result<RedisStore> {
    let options = options(config, setting, within).map_err(UsageError)?;
    RedisStore::connect(options).await.context("cannot use Redis")
}

fn options(config: &Config, setting: &str, within: Option<Duration>) -> Result<RedisOptions, String> {
    let url = config.redis.set_url(setting)?;
    let tls = config.redis.tls.client("redis.tls")?;
    let mut options = RedisOptions { tls, prefix: config.redis.prefix.clone(), ..RedisOptions::new(url) };
    options.open_timeout = within.unwrap_or(options.open_timeout);
    Ok(options)
}
