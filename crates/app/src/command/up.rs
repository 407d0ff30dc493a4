//! `crawlway up`: runs the gateway and the stages until a stop is requested.

use crate::{
    config::{Config, MetricsSettings, Problem, Problems},
    failure::UsageError,
    open,
    opening::Opening,
    output::Output,
    role::{self, Role},
    serving::Serving,
    sharing,
    worker::{Overrides, Process, Worker, stop_on_signals},
};
use clap::Args;
use crawlway_flow::Shutdown;
use crawlway_gateway::{BindError, Listener, bind};
use serde_json::json;
use std::{process, time::Duration};

/// Delay after which a process that still waits for its servers prints its address.
const ANNOUNCE_DELAY: Duration = Duration::from_secs(3);

/// Run the gateway and the workers as a service
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway up                                      everything, the API on http://127.0.0.1:8081
  CRAWLWAY_GATEWAY__LISTEN=127.0.0.1:0 crawlway up --json   on any free port, which is printed

The API is documented at /api/docs/ on that address. While the gateway runs, `gateway.json` in the
data directory has its address. SIGTERM or Ctrl-C is a graceful shutdown: items in flight are finished
or returned to their queue (`search.drain_timeout`). Any address but loopback needs `gateway.token`.

With shared stores, several processes can each run the gateway, a flow or a stage:
  crawlway up --only gateway
  crawlway up --only search:crawl
  crawlway up --only search:index
  crawlway up --only inventory
  crawlway up --flows search                       the flow search alone
There, `crawlway config check` lists what each stage owns, and what must be shared.

Servers may start in any order: the process retries with back-off, and /health/ready lists what is
missing. URLs are accepted as soon as the broker is available.

JSON, one line after the start:
  {\"address\", \"url\", \"parts\", \"pid\"}, or without the gateway {\"parts\", \"pid\"} and, with
  `metrics.listen`, \"metrics\": URL of /metrics; parts are the names of --only

Exit codes: 0 stopped by a signal; 1 failure; 2 invalid command line or setting.")]
pub(super) struct UpArgs {
    #[command(flatten)]
    role: RoleArgs,
}

/// Flags of the role of a process.
#[derive(Debug, Args)]
pub(super) struct RoleArgs {
    /// Run only these: the gateway, flows, and stages as FLOW:STAGE, separated by commas
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = role::only_parser())]
    only: Vec<String>,
    /// Run only these flows and serve only their routes (`flows`)
    #[arg(long, value_name = "FLOW", value_delimiter = ',', value_parser = role::flows_parser())]
    flows: Vec<String>,
}

impl RoleArgs {
    /// Role of the process. `--flows` overrides the setting.
    pub(super) fn role(&self, config: &Config) -> Result<Role, UsageError> {
        let flows = if self.flows.is_empty() { &config.flows } else { &self.flows };
        Role::parse(&self.only, flows)
    }
}

pub(super) async fn run(args: UpArgs, config: Config, output: &mut Output) -> anyhow::Result<()> {
    let role = args.role.role(&config)?;
    check(&role, &config)?;
    // Before anything is opened, so that a refusal changes nothing.
    if role.gateway || !sharing::Sharing::of(&config, &role).owned.is_empty() {
        open::not_while_served(&config)?;
    }
    let listening =
        if role.gateway { Some(listen(&config).await?) } else { listen_for_health(&config).await? };
    let stop = stop_on_signals()?;
    // Embedded stores are there at once, or never.
    let later = config.shares_anything();
    let process = Process::new(&config, &role, Overrides::default(), later, stop.clone()).await?;
    let handles = process.handles.clone();
    let mut endpoint = listening.map(|listening| match role.gateway {
        true => Serving::gateway(listening, &handles, &config, &role),
        false => Serving::health(listening, &handles, &config, &role),
    });
    // Not for a gateway without the stores that commands ask for.
    let is_found = role.gateway && (role.has_stages() || sharing::lacks_nothing(&config, &role));
    // Commands find it while it waits for servers, too.
    if let Some(endpoint) = endpoint.as_mut().filter(|_| is_found && later) {
        endpoint.announce(&config)?;
    }
    let opening = Opening { readiness: &handles.readiness, until: later.then_some(&stop) };
    let mut announced = false;
    let starting = process.start(&opening);
    tokio::pin!(starting);
    let started = loop {
        tokio::select! {
            started = &mut starting => break started,
            // Where servers are missing, the address is printed before the stages run.
            () = tokio::time::sleep(ANNOUNCE_DELAY), if later && !announced && endpoint.is_some() => {
                announce(&role, endpoint.as_ref(), "starting", output)?;
                announced = true;
            }
        }
    };
    let worker = match started {
        Ok(Some(worker)) => worker,
        ended => {
            stop.request();
            if let Some(endpoint) = endpoint {
                endpoint.ended().await?;
            }
            handles.broker.close().await?;
            return ended.map(drop);
        }
    };
    handles.readiness.started(worker.failure_check());
    let ended = async {
        if let Some(endpoint) = endpoint.as_mut().filter(|_| is_found && !later) {
            endpoint.announce(&config)?;
        }
        if !announced {
            announce(&role, endpoint.as_ref(), "running", output)?;
        }
        match endpoint {
            Some(endpoint) => endpoint.until_the_end(&worker, &stop).await,
            None => worker.until_the_end(&stop).await,
        }
    };
    let ended = ended.await;
    end(ended, worker, &stop).await
}

async fn end(ended: anyhow::Result<()>, mut worker: Worker, stop: &Shutdown) -> anyhow::Result<()> {
    stop.request();
    let drained = worker.drain().await;
    let closed = worker.close().await;
    ended.and(drained).and(closed)
}

async fn listen(config: &Config) -> anyhow::Result<Listener> {
    let address = config.gateway.listen().map_err(UsageError)?;
    bind(address, config.gateway.access("gateway.listen")).await.map_err(bind_error)
}

async fn listen_for_health(config: &Config) -> anyhow::Result<Option<Listener>> {
    let Some(address) = config.metrics.listen().map_err(UsageError)? else { return Ok(None) };
    bind(address, config.gateway.access(MetricsSettings::LISTEN)).await.map(Some).map_err(bind_error)
}

fn bind_error(error: BindError) -> anyhow::Error {
    match error {
        BindError::Unauthenticated { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

/// Prints what runs here: the address of the gateway, or the stages and the URL of their metrics.
fn announce(role: &Role, endpoint: Option<&Serving>, state: &str, output: &mut Output) -> anyhow::Result<()> {
    let (names, pid) = (role.names(), process::id());
    let line = match endpoint {
        Some(gateway) if role.gateway => {
            let (address, url) = (gateway.address, gateway.url());
            match output.is_json() {
                true => json!({ "address": address, "url": url, "parts": names, "pid": pid }).to_string(),
                false => format!("API at {url}/api/, documentation at {url}/api/docs/; Ctrl-C stops it"),
            }
        }
        health => {
            let metrics = health.map(|health| format!("{}/metrics", health.url()));
            if output.is_json() {
                let mut line = json!({ "parts": names, "pid": pid });
                if let Some(metrics) = metrics {
                    line["metrics"] = metrics.into();
                }
                line.to_string()
            } else {
                let metrics = metrics.map(|url| format!(", metrics at {url}")).unwrap_or_default();
                format!("{} {state}{metrics}; Ctrl-C stops it", names.join(" and "))
            }
        }
    };
    // JSON on one line, so that a reader knows when it is complete.
    output.line(&line)?;
    output.flush()?;
    Ok(())
}

/// Validates the settings for a process with this role, without connecting to a server.
pub(super) fn check(role: &Role, config: &Config) -> Result<(), Problems> {
    let mut problems: Vec<Problem> =
        sharing::check(config, role).err().map(Problem::together).into_iter().collect();
    let listens = open::Listens { gateway: role.gateway, health: !role.gateway };
    if let Err(Problems(others)) = open::check(config, listens) {
        problems.extend(others);
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}
