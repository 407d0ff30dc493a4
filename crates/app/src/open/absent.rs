//! Backends that are not compiled in. Loading the settings refuses them by name, so none of this is reached.

use anyhow::bail;

fn refused<T>(backend: &str) -> anyhow::Result<T> {
    bail!("this build leaves out {backend}; build with `--features full`")
}

#[cfg(not(feature = "kafka"))]
pub(super) mod kafka {
    use crate::config::{Config, KafkaSettings};
    use crawlway_broker::{QueueBackend, QueueSpec};
    use std::sync::Arc;

    pub(crate) async fn open(
        config: &Config,
        settings: &KafkaSettings,
        table: &str,
    ) -> anyhow::Result<Arc<dyn QueueBackend>> {
        open_later(config, settings, table)
    }

    pub(crate) fn open_later(
        _: &Config,
        _: &KafkaSettings,
        _: &str,
    ) -> anyhow::Result<Arc<dyn QueueBackend>> {
        super::refused("Kafka")
    }

    pub(crate) fn check(_: &Config, _: &KafkaSettings, _: &str, _: &[QueueSpec]) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(not(feature = "rabbitmq"))]
pub(super) mod rabbitmq {
    use crate::config::RabbitSettings;
    use crawlway_broker::{QueueBackend, QueueSpec};
    use std::sync::Arc;

    pub(crate) async fn open(
        settings: &RabbitSettings,
        table: &str,
    ) -> anyhow::Result<Arc<dyn QueueBackend>> {
        open_later(settings, table)
    }

    pub(crate) fn open_later(_: &RabbitSettings, _: &str) -> anyhow::Result<Arc<dyn QueueBackend>> {
        super::refused("RabbitMQ")
    }

    pub(crate) fn leases(
        _: &RabbitSettings,
        _: &str,
        _: &str,
    ) -> anyhow::Result<Box<dyn crate::open::stage_leases::LeaseStore>> {
        super::refused("RabbitMQ")
    }

    pub(crate) fn check(_: &RabbitSettings, _: &str, _: &[QueueSpec]) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(not(feature = "redis"))]
pub(super) mod redis {
    use crate::config::Config;
    use crawlway_store::{RequestStore, SeenUrls, Tokens, rate_limiter::RateLimiter};
    use std::{sync::Arc, time::Duration};

    pub(crate) async fn seen_urls(_: &Config, _: Option<Duration>) -> anyhow::Result<Arc<dyn SeenUrls>> {
        super::refused("Redis")
    }

    pub(crate) async fn rate_limiter(
        _: &Config,
        _: Option<Duration>,
    ) -> anyhow::Result<Arc<dyn RateLimiter>> {
        super::refused("Redis")
    }

    pub(crate) async fn requests(_: &Config, _: Option<Duration>) -> anyhow::Result<Arc<dyn RequestStore>> {
        super::refused("Redis")
    }

    pub(crate) async fn tokens(_: &Config, _: Option<Duration>) -> anyhow::Result<Arc<dyn Tokens>> {
        super::refused("Redis")
    }

    #[cfg(any(feature = "kafka", feature = "sqs"))]
    pub(crate) async fn ledger(
        _: &Config,
        _: Option<Duration>,
    ) -> anyhow::Result<Arc<dyn crawlway_store::Ledger>> {
        super::refused("Redis")
    }

    pub(crate) fn check(_: &Config, _: &str) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(not(feature = "mongodb"))]
pub(super) mod mongodb {
    use crate::config::Config;
    use crawlway_store::UrlRecords;
    use std::{sync::Arc, time::Duration};

    pub(crate) async fn url_records(_: &Config, _: Option<Duration>) -> anyhow::Result<Arc<dyn UrlRecords>> {
        super::refused("MongoDB")
    }

    pub(crate) fn check(_: &Config) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(not(feature = "postgresql"))]
pub(super) mod postgresql {
    use crate::{config::Config, open::Records};
    use crawlway_store::{PageIndex, RateLimiter};
    use std::sync::Arc;

    pub(crate) fn page_index(_: &Records) -> anyhow::Result<Arc<dyn PageIndex>> {
        super::refused("PostgreSQL")
    }

    pub(crate) async fn rate_limiter(_: &Config, _: &Records) -> anyhow::Result<Arc<dyn RateLimiter>> {
        super::refused("PostgreSQL")
    }
}

#[cfg(not(feature = "sqs"))]
pub(super) mod sqs {
    use crate::config::{Config, SqsSettings};
    use crawlway_broker::{QueueBackend, QueueSpec};
    use std::sync::Arc;

    pub(crate) async fn open(
        config: &Config,
        settings: &SqsSettings,
    ) -> anyhow::Result<Arc<dyn QueueBackend>> {
        open_later(config, settings)
    }

    pub(crate) fn open_later(_: &Config, _: &SqsSettings) -> anyhow::Result<Arc<dyn QueueBackend>> {
        super::refused("SQS")
    }

    pub(crate) fn check(_: &Config, _: &SqsSettings, _: &str, _: &[QueueSpec]) -> Result<(), String> {
        Ok(())
    }
}
