//! `crawlway up`: runs the gateway and the workers until a stop is requested.

use crate::{
    config::{Config, MetricsSettings, Problem, Problems},
    failure::UsageError,
    open,
    opening::{self, Opening},
    output::Output,
    serving::{Health, Serving},
    worker::{FetchOverrides, Roles, Worker, stop_on_signals},
};
use clap::{Args, ValueEnum, builder::PossibleValue};
use crawlway_broker::QueueBackend;
use crawlway_flow::Shutdown;
use crawlway_flows::search::Stages;
use crawlway_gateway::{BindError, Listener, Readiness, bind};
use serde_json::json;
use std::{process, sync::Arc, time::Duration};

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

With shared stores, several processes can each run some of the parts:
  crawlway up --only gateway
  crawlway up --only worker:crawl
  crawlway up --only worker:index
  crawlway up --only worker:inventory

Servers may start in any order: the process retries with back-off, and /health/ready lists what is
missing. URLs are accepted as soon as the broker is available.

JSON, one line after the start:
  {\"address\", \"url\", \"pid\"}, or without the gateway {\"parts\", \"pid\"} and, with
  `metrics.listen`, \"metrics\": URL of /metrics

Exit codes: 0 stopped by a signal; 1 failure; 2 invalid command line or setting.")]
pub(super) struct UpArgs {
    /// Run only these parts, separated by commas; several processes need shared stores
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
}

/// Part of the service that a process can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Gateway,
    Crawl,
    Index,
    Inventory,
}

impl ValueEnum for Part {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Gateway, Self::Crawl, Self::Index, Self::Inventory]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Crawl => "worker:crawl",
            Self::Index => "worker:index",
            Self::Inventory => "worker:inventory",
        }
    }
}

pub(super) async fn run(args: UpArgs, config: Config, output: &mut Output) -> anyhow::Result<()> {
    check(&args.only, &config)?;
    if config.is_for_one_worker() && args.only == [Part::Gateway] {
        return serve_inventory_only(&config, output).await;
    }
    let runs = |part| args.only.is_empty() || args.only.contains(&part);
    // Before anything is opened, so that a refusal changes nothing.
    if runs(Part::Gateway) || !config.sharing().owned.is_empty() {
        open::not_while_served(&config)?;
    }
    let listening = if runs(Part::Gateway) { Some(listen(&config).await?) } else { None };
    let health = if runs(Part::Gateway) { None } else { listen_for_health(&config).await? };
    let stop = stop_on_signals()?;
    let stages = Roles {
        search: Stages { crawl: runs(Part::Crawl), index: runs(Part::Index) },
        inventory: runs(Part::Inventory),
        gateway: runs(Part::Gateway),
    };
    if config.sharing().shared.is_empty() {
        let worker = Worker::start(&config, FetchOverrides::default(), stages, None, stop.clone()).await?;
        let serving = listening
            .map(|listening| Serving::start(listening, &worker, &config, Vec::new(), &stop))
            .transpose();
        let ended = match serving {
            Ok(Some(serving)) => serve(serving, None, &worker, &stop, output).await,
            Ok(None) => work(&args.only, None, None, &worker, &stop, output).await,
            Err(error) => Err(error),
        };
        return end(ended, worker, &stop).await;
    }
    let readiness = Readiness::starting(open::needs(&config, stages), stop.clone());
    // Before the stores are open, so that health lists what is missing.
    let health = health.map(|listening| Health::begin(listening, &config, &readiness, &stop));
    let broker = open::broker_later(&config).await?;
    let serving = listening
        .map(|listening| Serving::begin(listening, &broker, &config, Vec::new(), &readiness, &stop))
        .transpose()?;
    let mut endpoint = match (serving, health) {
        (Some(serving), _) => Endpoint::Gateway(serving),
        (None, Some(health)) => Endpoint::Health(health),
        (None, None) => Endpoint::None,
    };
    let started = open_all(&broker, &config, stages, &args.only, &readiness, &endpoint, &stop, output).await;
    let (worker, announced) = match started {
        Ok(Some(started)) => started,
        ended => {
            stop.request();
            endpoint.ended().await?;
            broker.close().await?;
            return ended.map(drop);
        }
    };
    let completed = match &mut endpoint {
        Endpoint::Gateway(serving) => serving.complete(&worker, &config, &stop),
        Endpoint::Health(health) => health.complete(&worker, &config, &stop),
        Endpoint::None => Ok(()),
    };
    let ended = match (completed, endpoint) {
        (Err(error), _) => Err(error),
        (Ok(()), Endpoint::Gateway(serving)) => serve(serving, announced, &worker, &stop, output).await,
        (Ok(()), Endpoint::Health(health)) => {
            work(&args.only, Some(health), announced, &worker, &stop, output).await
        }
        (Ok(()), Endpoint::None) => work(&args.only, None, announced, &worker, &stop, output).await,
    };
    end(ended, worker, &stop).await
}

/// HTTP endpoint of a process.
enum Endpoint {
    Gateway(Serving),
    Health(Health),
    None,
}

impl Endpoint {
    /// Waits for the end of the graceful shutdown.
    async fn ended(self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(serving) => serving.ended().await,
            Self::Health(health) => health.ended().await,
            Self::None => Ok(()),
        }
    }
}

/// The address was printed already.
#[derive(Debug, Clone, Copy)]
struct Announced;

/// Waits until all stores are open. The address is printed meanwhile if that takes long.
#[allow(clippy::too_many_arguments, reason = "each is another thing, and the one caller is above")]
async fn open_all(
    broker: &Arc<dyn QueueBackend>,
    config: &Config,
    stages: Roles,
    parts: &[Part],
    readiness: &Readiness,
    endpoint: &Endpoint,
    stop: &Shutdown,
    output: &mut Output,
) -> anyhow::Result<Option<(Worker, Option<Announced>)>> {
    let urls = async {
        match endpoint {
            Endpoint::Gateway(serving) => accept_urls(serving, broker, config, readiness, stop).await,
            _ => Ok(()),
        }
    };
    let worker = Worker::start_when_available(broker.clone(), config, stages, readiness, stop.clone());
    let all = async { tokio::try_join!(worker, urls) };
    tokio::pin!(all);
    let mut announced = None;
    let worker = loop {
        let listens = !matches!(endpoint, Endpoint::None);
        tokio::select! {
            opened = &mut all => break opened?.0,
            () = tokio::time::sleep(ANNOUNCE_DELAY), if announced.is_none() && listens => {
                match endpoint {
                    Endpoint::Gateway(serving) => announce(serving, output)?,
                    Endpoint::Health(health) => announce_parts(parts, Some(health), "starting", output)?,
                    Endpoint::None => {}
                }
                announced = Some(Announced);
            }
        }
    };
    Ok(worker.map(|worker| (worker, announced)))
}

/// Declares the queue of the flow `inventory`: URLs are accepted as soon as the broker is available.
async fn accept_urls(
    serving: &Serving,
    broker: &Arc<dyn QueueBackend>,
    config: &Config,
    readiness: &Readiness,
    stop: &Shutdown,
) -> anyhow::Result<()> {
    let queue = open::url_queue(config, &**broker);
    let declared = opening::declare(broker, &[queue], &Opening { readiness, until: Some(stop) }).await;
    if opening::unless_stopped(declared)?.is_some() {
        serving.inventory.start_accepting();
    }
    Ok(())
}

/// Serves until a stop is requested or a stage fails.
async fn serve(
    serving: Serving,
    announced: Option<Announced>,
    worker: &Worker,
    stop: &Shutdown,
    output: &mut Output,
) -> anyhow::Result<()> {
    if announced.is_none() {
        announce(&serving, output)?;
    }
    serving.until_the_end(worker, stop).await
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

/// Runs the stages without a gateway until a stop is requested or a stage fails.
async fn work(
    parts: &[Part],
    health: Option<Health>,
    announced: Option<Announced>,
    worker: &Worker,
    stop: &Shutdown,
    output: &mut Output,
) -> anyhow::Result<()> {
    if announced.is_none() {
        announce_parts(parts, health.as_ref(), "running", output)?;
    }
    let ended = worker.until_the_end(stop).await;
    match health {
        Some(health) => ended.and(health.ended().await),
        None => ended,
    }
}

/// Prints the parts of this process, and the URL of its metrics.
fn announce_parts(
    parts: &[Part],
    health: Option<&Health>,
    state: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    let metrics = health.map(Health::metrics_url);
    if output.is_json() {
        let mut line = json!({ "parts": names, "pid": process::id() });
        if let Some(metrics) = metrics {
            line["metrics"] = metrics.into();
        }
        output.line(&line.to_string())?;
    } else {
        let metrics = metrics.map(|url| format!(", metrics at {url}")).unwrap_or_default();
        output.line(&format!("{} {state}{metrics}; Ctrl-C stops it", names.join(" and ")))?;
    }
    output.flush()?;
    Ok(())
}

/// Serves the flow `inventory` only, whose worker is another process.
async fn serve_inventory_only(config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let listening = listen(config).await?;
    let stop = stop_on_signals()?;
    let broker = open::broker_later(config).await?;
    let readiness = Readiness::starting(open::needs_of_inventory_alone(config), stop.clone());
    let serving = Serving::begin(listening, &broker, config, Vec::new(), &readiness, &stop)?;
    announce(&serving, output)?;
    let opening = Opening { readiness: &readiness, until: Some(&stop) };
    let declared = accept_urls(&serving, &broker, config, &readiness, &stop);
    let opened = tokio::try_join!(opening::inventory_only(config, &opening), declared);
    match &opened {
        Ok((Some(urls), ())) => serving.complete_inventory_only(urls.clone(), &readiness, config),
        Ok((None, ())) => {}
        Err(_) => stop.request(),
    }
    let ended = serving.ended().await;
    broker.close().await?;
    opened.map(drop).and(ended)
}

/// Prints the address of the gateway.
fn announce(serving: &Serving, output: &mut Output) -> anyhow::Result<()> {
    let (address, url) = (serving.address, serving.url());
    if output.is_json() {
        // On one line, so that a reader knows when it is complete.
        output.line(&json!({ "address": address, "url": url, "pid": process::id() }).to_string())?;
    } else {
        output.line(&format!("API at {url}/api/, documentation at {url}/api/docs/; Ctrl-C stops it"))?;
    }
    output.flush()?;
    Ok(())
}

/// Validates the settings for a process with these parts, without connecting to a server.
pub(super) fn check(only: &[Part], config: &Config) -> Result<(), Problems> {
    let gateway = only.is_empty() || only.contains(&Part::Gateway);
    let mut problems: Vec<Problem> =
        check_parts(only, config).err().map(Problem::plain).into_iter().collect();
    if let Err(Problems(others)) = open::check(config, open::Listens { gateway, health: !gateway }) {
        problems.extend(others);
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// Embedded stores belong to one process, so that all parts must run in it.
fn check_parts(only: &[Part], config: &Config) -> Result<(), String> {
    let missing: Vec<&str> =
        Part::value_variants().iter().filter(|part| !only.contains(part)).map(|part| part.name()).collect();
    let owned = config.sharing().owned.join(", ");
    if only.is_empty() || missing.is_empty() || owned.is_empty() {
        return Ok(());
    }
    if config.is_for_one_worker() {
        if only == [Part::Gateway] || only == [Part::Inventory] {
            return Ok(());
        }
        return Err(format!(
            "with `only_worker` a process is either the gateway (--only {}) or the worker (--only {})",
            Part::Gateway.name(),
            Part::Inventory.name()
        ));
    }
    Err(format!(
        "--only leaves out {}, but these are embedded and owned by one process: {owned}; leave --only out, or use \
         shared stores",
        missing.join(" and ")
    ))
}
