//! `crawlway health`: readiness of a running process.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind, UsageError},
    gateway_file,
    output::{Cell, Column, Output, Table, Tone, warn},
    service::{Client, Target},
};
use anyhow::Context;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use url::Url;

/// Show the readiness of the process that runs with these settings
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway health                                  the process of these settings
  crawlway health --gateway http://127.0.0.1:8081  a gateway elsewhere

The process is the gateway of --gateway or `gateway.url`, else the gateway that runs on the data
directory, else the process that listens on `metrics.listen`. Without that setting the gateway on
`gateway.listen` is asked, with a warning: a worker answers on `metrics.listen` alone. Suitable as the
health check of a container.

JSON:
  {\"ready\", \"dependencies\": [{\"name\", \"backend\", \"ready\", \"reason\"}]}

Exit codes: 0 ready; 1 not ready, or no response; 2 invalid setting.")]
pub(super) struct HealthArgs {}

/// Response of `/health/ready`.
#[derive(Debug, Serialize, Deserialize)]
struct HealthReport {
    ready: bool,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Dependency {
    name: String,
    backend: Option<String>,
    ready: bool,
    reason: Option<String>,
}

/// A suspended process does not answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn run(_: HealthArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let target = Target::of(config)?;
    // The process may be a worker, which the gateway that happens to listen there is not.
    let is_guess =
        matches!(target, Target::Local(_)) && config.metrics.listen().is_ok_and(|address| address.is_none());
    let client = match target {
        Target::Remote(client) => client,
        Target::Local(_) => {
            Client::new(listen_url(config)?, &config.gateway)?.with_token_for_this_machine_only()
        }
    };
    let client = client.with_timeout(HEALTH_TIMEOUT);
    let answer = client.get_health(&client.url(["health", "ready"])).await;
    let readiness: HealthReport = match is_guess {
        true => answer.context(
            "no gateway runs on the data directory; a process without one answers on `metrics.listen`, which is not set",
        )?,
        false => answer?,
    };
    if is_guess {
        warn(&format!(
            "this is the gateway on `gateway.listen`, {}; a process without one answers on `metrics.listen`, which is not set",
            client.base_url()
        ));
    }
    if output.is_json() {
        output.json(&readiness)?;
    } else {
        print(&readiness, output)?;
    }
    output.flush()?;
    if readiness.ready { Ok(()) } else { Err(AlreadyReported(ExitKind::Failed).into()) }
}

/// URL of a process with these settings, as seen from this machine.
fn listen_url(config: &Config) -> anyhow::Result<Url> {
    let address = match config.metrics.listen().map_err(UsageError)? {
        Some(address) => address,
        None => config.gateway.listen().map_err(UsageError)?,
    };
    gateway_file::url_on_this_machine(address)
}

fn print(readiness: &HealthReport, output: &mut Output) -> anyhow::Result<()> {
    let mut table = Table::new([
        Column::left("dependency"),
        Column::left("backend"),
        Column::left("state"),
        Column::left("reason"),
    ]);
    for Dependency { name, backend, ready, reason } in &readiness.dependencies {
        table.row([
            Cell::new(name.as_str()),
            backend.as_deref().map_or_else(Cell::none, Cell::new),
            if *ready { Cell::new("ready") } else { Cell::new("not ready").tone(Tone::Alarm) },
            reason.as_deref().map_or_else(Cell::none, |reason| Cell::cut(reason, 1_000)),
        ]);
    }
    output.line(if readiness.ready { "ready" } else { "not ready" })?;
    output.line("")?;
    Ok(output.table(&table)?)
}
