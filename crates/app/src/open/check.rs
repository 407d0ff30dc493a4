//! Everything that `up` refuses before it asks a server, so that `config check` finds it, too.

use super::{blobs, broker::check_brokers, mongodb, redis, stores};
use crate::{
    config::{
        BlobKind, Config, InventoryKind, MetricsSettings, Problem, Problems, RateLimitKind, RecordKind,
        RequestKind, SeenKind,
    },
    flows,
};
use crawlway_broker::QueueName;
use crawlway_gateway::AccessControl;

/// Where a process listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listens {
    /// As the gateway, at `gateway.listen`.
    pub(crate) gateway: bool,
    /// For health and metrics alone, at `metrics.listen`.
    pub(crate) health: bool,
}

/// Refuses settings with which a process that listens there could not run.
pub(crate) fn check(config: &Config, listens: Listens) -> Result<(), Problems> {
    let mut problems = check_brokers(config);
    if config.records.kind == RecordKind::Postgresql {
        let options = stores::record_options(config, None);
        problems.push(options.and_then(|options| options.check().map_err(|error| error.to_string())));
    }
    for (setting, wanted) in [
        ("seen.kind", config.seen.kind == SeenKind::Redis),
        ("rate_limit.kind", config.rate_limit.kind == RateLimitKind::Redis),
        ("requests.store", config.requests.store == RequestKind::Redis),
    ] {
        if wanted {
            problems.push(redis::check(config, setting));
        }
    }
    if config.inventory.store == InventoryKind::Mongodb {
        problems.push(mongodb::check(config));
    }
    problems.push(blobs::blobs(config).map(drop).map_err(|error| error.to_string()));
    problems.push(kept_html(config));
    problems.push(known_queues(config));
    problems.push(config.gateway.check_tls());
    if listens.gateway {
        problems.push(protected(config.gateway.listen().map(Some), config.gateway.access("gateway.listen")));
    }
    if listens.health {
        problems.push(protected(config.metrics.listen(), config.gateway.access(MetricsSettings::LISTEN)));
    }
    if config.data_dir.exists() && !config.data_dir.is_dir() {
        problems
            .push(Err(format!("`data_dir` is `{}`, which is not a directory", config.data_dir.display())));
    }
    let mut texts: Vec<String> = problems.into_iter().filter_map(Result::err).collect();
    texts.dedup();
    if texts.is_empty() { Ok(()) } else { Err(Problems(texts.into_iter().map(Problem::together).collect())) }
}

/// Refuses to keep raw HTML in the data directories of several processes, where no other one would find it.
fn kept_html(config: &Config) -> Result<(), String> {
    let is_one = config.only_process || config.one_process_per_stage || !config.shares_anything();
    if !config.search.keep_html || config.blobs.kind == BlobKind::S3 || is_one {
        return Ok(());
    }
    Err("`search.keep_html` is true, and each of several processes would keep raw HTML in its own data directory; set \
         `blobs.kind` to \"s3\", or `only_process` if there is one"
        .to_owned())
}

/// Refuses settings of queues that no flow has.
fn known_queues(config: &Config) -> Result<(), String> {
    let known: Vec<QueueName> =
        flows::all().iter().flat_map(|flow| flow.queues(config)).map(|spec| spec.name).collect();
    let Some(unknown) = config.queue.names().find(|name| !known.contains(name)) else { return Ok(()) };
    let nearest: Vec<String> = unknown.nearest(&known).iter().map(|name| format!("`{name}`")).collect();
    Err(format!(
        "no flow has a queue `{unknown}`, as in `[queue.{unknown}]`; there are {}",
        nearest.join(", ")
    ))
}

/// Refuses to listen where strangers could come, unless that is meant.
fn protected(
    listen: Result<Option<std::net::SocketAddr>, String>,
    access: AccessControl,
) -> Result<(), String> {
    match listen? {
        Some(address) => access.check(address).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}
