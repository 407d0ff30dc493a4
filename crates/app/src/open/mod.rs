//! Opens the configured backends. The only folder that names them.

#[cfg(not(all(
    feature = "kafka",
    feature = "mongodb",
    feature = "postgresql",
    feature = "rabbitmq",
    feature = "redis",
    feature = "sqs"
)))]
mod absent;
mod blobs;
mod broker;
mod check;
mod dependencies;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(any(feature = "kafka", feature = "sqs"))]
mod ledger;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "postgresql")]
mod postgresql;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqs")]
mod sqs;
mod stage_leases;
mod stores;

#[cfg(not(feature = "kafka"))]
use absent::kafka;
#[cfg(not(feature = "mongodb"))]
use absent::mongodb;
#[cfg(not(feature = "postgresql"))]
use absent::postgresql;
#[cfg(not(feature = "rabbitmq"))]
use absent::rabbitmq;
#[cfg(not(feature = "redis"))]
use absent::redis;
#[cfg(not(feature = "sqs"))]
use absent::sqs;

pub(crate) use blobs::blobs;
pub(crate) use broker::{BrokerSettings, TELLS_DAMAGE_ITSELF, broker, broker_later, queues_of};
pub(crate) use check::{Listens, check};
pub(crate) use dependencies::{
    dependencies, dependency_names, index_probe, is_with_records, rate_limiter_probe, requests_probe,
    seen_probe, urls_probe,
};
pub(crate) use stage_leases::{StageLeases, StageTaken, lease_backend};
pub(crate) use stores::{
    Records, existing_page_index, existing_records, existing_requests, existing_urls, index_with_records,
    lock_records, own_index, own_rate_limiter, own_requests, own_seen, own_tokens, own_urls, rate_limiter,
    rate_limiter_with_records, records, records_if_any, requests,
};

use crate::{config::Config, flows, gateway_file};
use anyhow::{Context, bail};
use broker::{ReachableBrokers, reachable_brokers};
use crawlway_broker::{DeadLetters, QueueBackend};
use crawlway_flows::search::QueuesWithFrontier;
use crawlway_gateway::{dto::UnavailableQueue, service::Undeclared};
use std::{fs, io, path::Path, sync::Arc};
use stores::has_records;

/// Queues of the installation, with the frontier among them, for administration.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Queues and dead letters, including those of the frontier.
    pub(crate) queues: Arc<dyn DeadLetters>,
    pub(crate) broker: Arc<dyn QueueBackend>,
    /// Records with the trails, if they exist.
    pub(crate) records: Option<Records>,
    /// Whether no other process can use them.
    pub(crate) alone: bool,
    /// Queues of brokers that could not be opened.
    pub(crate) unavailable: Vec<UnavailableQueue>,
}

impl Queues {
    pub(crate) fn undeclared(&self) -> Undeclared<'_> {
        Undeclared::OfClosedBrokers(&self.unavailable)
    }

    /// Closes files and connections.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let closed = self.broker.close().await;
        if let Some(records) = self.records {
            records.close().await;
        }
        Ok(closed?)
    }
}

/// Opens existing queues for administration. A missing data directory is an error and is not created.
pub(crate) async fn existing_queues(config: &Config) -> anyhow::Result<Queues> {
    let queues = reachable_queues(config).await?;
    let Some(queue) = queues.unavailable.first().map(UnavailableQueue::to_string) else { return Ok(queues) };
    queues.close().await?;
    bail!(queue)
}

/// Opens existing queues of the brokers that respond, at least one.
pub(crate) async fn reachable_queues(config: &Config) -> anyhow::Result<Queues> {
    let flows = flows::enabled(config);
    let ReachableBrokers { broker, unavailable } = reachable_brokers(config, &flows).await?;
    let alone = config.only_process || !config.shares_anything();
    if !has_records(config) {
        return Ok(Queues { queues: broker.clone(), broker, records: None, alone, unavailable });
    }
    let records = records(config, None).await?;
    if config.owns_queues(&flows) {
        records.take_back(config).await?;
    }
    let queues = Arc::new(QueuesWithFrontier::new(broker.clone(), records.frontier.clone()));
    Ok(Queues { queues, broker, records: Some(records), alone, unavailable })
}

/// Fails while a gateway runs on the data directory; the error has its address.
pub(crate) fn not_while_served(config: &Config) -> anyhow::Result<()> {
    match gateway_file::running(&config.data_dir) {
        None => Ok(()),
        Some(gateway_file::Running { pid, .. }) if pid == std::process::id() => Ok(()),
        Some(gateway_file::Running { address, pid }) => bail!(
            "data directory `{}` is in use by the gateway at http://{address} (process {pid}); ask that gateway, or stop \
             it first",
            config.data_dir.display()
        ),
    }
}

fn must_be_a_directory(data: &Path) -> anyhow::Result<()> {
    match fs::metadata(data) {
        Ok(found) if !found.is_dir() => {
            bail!("`{}` is not a directory; name the data directory with --data", data.display())
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no data directory `{}`; name another with --data or `data_dir`", data.display())
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot look at data directory `{}`", data.display()))
        }
    }
}
