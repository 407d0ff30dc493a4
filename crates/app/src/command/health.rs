//! `crawlway health`: whether a process of ours can do its work.

use crate::{
    ask::{Client, Place},
    config::Config,
    failure::{ExitKind, Told, UsageError},
    output::{Cell, Column, Output, Table, Tone},
};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use url::Url;

/// Say whether the process that listens here can do its work
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway health                                  the gateway or the worker of these settings
  crawlway health --gateway http://127.0.0.1:8081  one that listens there

Asked is the gateway that --gateway or `gateway.url` names, or the one that runs on the data
directory; else what listens at `metrics.listen`, and where that is not set, at `gateway.listen`. It is
what a health check of a container needs.

JSON:
  {\"ready\", \"dependencies\": [{\"name\", \"backend\", \"ready\", \"reason\"}]}

Exit codes: 0 it can; 1 it cannot, or does not answer; 2 a setting is wrong.")]
pub(super) struct HealthArgs {}

/// How a process is, as it says itself.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
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

/// How long a gateway may take to say how it is; one that is suspended says nothing.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(_: HealthArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let client = match Place::of(config)? {
        Place::Gateway(client) => client,
        Place::Data(_) => Client::new(listens(config)?, &config.gateway).of_this_machine(),
    };
    let client = client.within(PATIENCE);
    let told: Ready = client.look(&client.address(["health", "ready"])).await?;
    if output.is_json() {
        output.json(&told)?;
    } else {
        tell(&told, output)?;
    }
    output.flush()?;
    if told.ready { Ok(()) } else { Err(Told(ExitKind::Failed).into()) }
}

/// Where a process with these settings listens, as it is reached from here.
fn listens(config: &Config) -> anyhow::Result<Url> {
    let address = match config.metrics.listen().map_err(UsageError)? {
        Some(address) => address,
        None => config.gateway.listen().map_err(UsageError)?,
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(Url::parse(&format!("http://{}", SocketAddr::new(ip, address.port())))?)
}

fn tell(told: &Ready, output: &mut Output) -> anyhow::Result<()> {
    let mut table =
        Table::new([Column::left("needs"), Column::left("on"), Column::left("is"), Column::left("because")]);
    for Dependency { name, backend, ready, reason } in &told.dependencies {
        table.row([
            Cell::new(name.as_str()),
            backend.as_deref().map_or_else(Cell::none, Cell::new),
            if *ready { Cell::new("ready") } else { Cell::new("missing").tone(Tone::Alarm) },
            reason.as_deref().map_or_else(Cell::none, |reason| Cell::cut(reason, 120)),
        ]);
    }
    output.line(if told.ready { "ready" } else { "not ready" })?;
    output.line("")?;
    Ok(output.table(&table)?)
}
