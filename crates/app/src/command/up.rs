//! `crawlway up`: the gateway and the workers, until asked to end.

use crate::{
    config::{Config, MetricsSettings},
    failure::UsageError,
    open,
    output::Output,
    serving::{Health, Serving},
    worker::{Terms, Worker, stop_on_signals},
};
use anyhow::bail;
use clap::{Args, ValueEnum, builder::PossibleValue};
use crawlway_flow::Stop;
use crawlway_flows::search::Stages;
use crawlway_gateway::{BindError, Listening, bind};
use serde_json::json;
use std::process;

/// Run the gateway and the workers until asked to end
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway up                                      everything, the API on http://127.0.0.1:8081
  CRAWLWAY_GATEWAY__LISTEN=127.0.0.1:0 crawlway up --json   on any free port, which is printed

The API is described at /api/docs/ on that address. While it runs, `gateway.json` in the data
directory says where it listens. SIGTERM or Ctrl-C ends it: nothing more is taken, what is in flight
is finished or handed back (`search.drain`). Listening on anything but loopback needs
`gateway.token`.

With stores that are shared, any number of processes can each run some of the parts:
  crawlway up --only gateway
  crawlway up --only worker:crawl
  crawlway up --only worker:index

JSON, one line as soon as it listens, or works:
  {\"address\", \"url\", \"pid\"}, or without the gateway {\"parts\", \"pid\"} and, with
  `metrics.listen`, \"metrics\": where /metrics is

Exit codes: 0 it was asked to end, and has; 1 it failed; 2 the command line or a setting is wrong.")]
pub(super) struct UpArgs {
    /// Run only these parts, separated by commas; more than one process needs stores that are shared
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
}

/// What a process can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Gateway,
    Crawl,
    Index,
}

impl ValueEnum for Part {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Gateway, Self::Crawl, Self::Index]
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
        }
    }
}

pub(super) async fn run(args: UpArgs, config: Config, output: &mut Output) -> anyhow::Result<()> {
    check_parts(&args.only, &config)?;
    let runs = |part| args.only.is_empty() || args.only.contains(&part);
    // Before anything is opened: who is refused has changed nothing.
    if runs(Part::Gateway) || !config.sharing().owned.is_empty() {
        open::not_while_served(&config)?;
    }
    let listening = if runs(Part::Gateway) { Some(listen(&config).await?) } else { None };
    let health = if runs(Part::Gateway) { None } else { listen_for_health(&config).await? };
    let stop = stop_on_signals()?;
    let stages = Stages { crawl: runs(Part::Crawl), index: runs(Part::Index) };
    let mut worker = Worker::start(&config, Terms::default(), stages, None, stop.clone()).await?;
    let ended = match listening {
        Some(listening) => serve(listening, &worker, &config, &stop, output).await,
        None => work(&args.only, health, &worker, &config, &stop, output).await,
    };
    let drained = worker.drain().await;
    let closed = worker.close().await;
    ended.and(drained).and(closed)
}

async fn listen(config: &Config) -> anyhow::Result<Listening> {
    let address = config.gateway.listen().map_err(UsageError)?;
    bind(address, config.gateway.access("gateway.listen")).await.map_err(refusal)
}

async fn listen_for_health(config: &Config) -> anyhow::Result<Option<Listening>> {
    let Some(address) = config.metrics.listen().map_err(UsageError)? else { return Ok(None) };
    bind(address, config.gateway.access(MetricsSettings::LISTEN)).await.map(Some).map_err(refusal)
}

fn refusal(error: BindError) -> anyhow::Error {
    match error {
        BindError::Unprotected { .. } => UsageError(error.to_string()).into(),
        other => other.into(),
    }
}

/// Works without a gateway until asked to end, or until the stages have broken.
async fn work(
    parts: &[Part],
    health: Option<Listening>,
    worker: &Worker,
    config: &Config,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<()> {
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    let health = health.map(|listening| Health::start(listening, worker, config, stop));
    let metrics = health.as_ref().map(|health| format!("http://{}/metrics", health.address));
    if output.is_json() {
        let mut told = json!({ "parts": names, "pid": process::id() });
        if let Some(metrics) = metrics {
            told["metrics"] = metrics.into();
        }
        output.line(&told.to_string())?;
    } else {
        let metrics = metrics.map(|url| format!(", and tells how at {url}")).unwrap_or_default();
        output.line(&format!("{} at work{metrics}; Ctrl-C ends it", names.join(" and ")))?;
    }
    output.flush()?;
    let ended = worker.until_the_end(stop).await;
    match health {
        Some(health) => ended.and(health.ended().await),
        None => ended,
    }
}

/// Serves until asked to end, or until the stages have broken.
async fn serve(
    listening: Listening,
    worker: &Worker,
    config: &Config,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<()> {
    let serving = Serving::start(listening, worker, config, stop)?;
    let (address, url) = (serving.address, serving.url());
    if output.is_json() {
        // On one line, so that whoever waits for it knows when it is whole.
        output.line(&json!({ "address": address, "url": url, "pid": process::id() }).to_string())?;
    } else {
        output.line(&format!("the API is at {url}/api/ and described at {url}/api/docs/; Ctrl-C ends it"))?;
    }
    output.flush()?;
    serving.until_the_end(worker, stop).await
}

/// What one process owns must be whole in one process.
fn check_parts(only: &[Part], config: &Config) -> anyhow::Result<()> {
    let missing: Vec<&str> =
        Part::value_variants().iter().filter(|part| !only.contains(part)).map(|part| part.name()).collect();
    let owned = config.sharing().owned.join(", ");
    if only.is_empty() || missing.is_empty() || owned.is_empty() {
        return Ok(());
    }
    bail!(UsageError(format!(
        "--only leaves out {}, but these are embedded and owned by one process: {owned}; gateway, worker:crawl and \
         worker:index must all be in it, so leave --only out, or use stores that are shared",
        missing.join(" and ")
    )))
}
