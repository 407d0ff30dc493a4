//! Everything that `up` refuses before it asks a server, so that `config check` finds it, too.

use super::{broker::queues_without_limits, stores};
use crate::config::{
    Config, GateKind, InventoryKind, MetricsSettings, Problem, Problems, RecordKind, SeenKind,
};
use crawlway_gateway::Access;

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
    let mut problems = vec![config.broker.check_to_open(&queues_without_limits(config))];
    let text = |error: crawlway_store::StoreError| error.to_string();
    if config.records.kind == RecordKind::Postgresql {
        problems.push(stores::record_options(config, None).and_then(|options| options.check().map_err(text)));
    }
    for (setting, wanted) in [
        ("seen.kind", config.seen.kind == SeenKind::Redis),
        ("gate.kind", config.gate.kind == GateKind::Redis),
    ] {
        if wanted {
            let options = stores::redis_options(config, setting, None);
            problems.push(options.and_then(|options| options.check().map_err(text)));
        }
    }
    if config.inventory.store == InventoryKind::Mongodb {
        problems.push(stores::mongo_options(config, None).and_then(|options| options.check().map_err(text)));
    }
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

/// Refuses to listen where strangers could come, unless that is meant.
fn protected(listen: Result<Option<std::net::SocketAddr>, String>, access: Access) -> Result<(), String> {
    match listen? {
        Some(address) => access.check(address).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}
