//! `crawlway up`: the gateway and the workers, until asked to end.

use crate::{
    config::{Config, MetricsSettings, Problem, Problems},
    failure::UsageError,
    open,
    opening::{self, Opening},
    output::Output,
    serving::{Health, Serving},
    worker::{Runs, Terms, Worker, stop_on_signals},
};
use clap::{Args, ValueEnum, builder::PossibleValue};
use crawlway_broker::Broker;
use crawlway_flow::Stop;
use crawlway_flows::search::Stages;
use crawlway_gateway::{BindError, Listening, Readiness, bind};
use serde_json::json;
use std::{process, sync::Arc, time::Duration};

/// After this long a gateway that waits for its servers says where it listens.
const PATIENCE: Duration = Duration::from_secs(3);

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
  crawlway up --only worker:inventory

Servers may come up in any order: what is missing is waited for, and /health/ready names it. URLs are
accepted as soon as the broker is there.

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
        return serve_alone(&config, output).await;
    }
    let runs = |part| args.only.is_empty() || args.only.contains(&part);
    // Before anything is opened: who is refused has changed nothing.
    if runs(Part::Gateway) || !config.sharing().owned.is_empty() {
        open::not_while_served(&config)?;
    }
    let listening = if runs(Part::Gateway) { Some(listen(&config).await?) } else { None };
    let health = if runs(Part::Gateway) { None } else { listen_for_health(&config).await? };
    let stop = stop_on_signals()?;
    let stages = Runs {
        search: Stages { crawl: runs(Part::Crawl), index: runs(Part::Index) },
        inventory: runs(Part::Inventory),
        gateway: runs(Part::Gateway),
    };
    if config.sharing().shared.is_empty() {
        // There is no server to wait for.
        let worker = Worker::start(&config, Terms::default(), stages, None, stop.clone()).await?;
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
    // Health is answered from here on, whatever is missing.
    let health = health.map(|listening| Health::begin(listening, &config, &readiness, &stop));
    let broker = open::broker_later(&config).await?;
    let serving = listening
        .map(|listening| Serving::begin(listening, &broker, &config, Vec::new(), &readiness, &stop))
        .transpose()?;
    let mut answering = match (serving, health) {
        (Some(serving), _) => Answering::Gateway(serving),
        (None, Some(health)) => Answering::Health(health),
        (None, None) => Answering::Nothing,
    };
    let started = open_all(&broker, &config, stages, &args.only, &readiness, &answering, &stop, output).await;
    let (worker, announced) = match started {
        Ok(Some(started)) => started,
        ended => {
            stop.request();
            answering.ended().await?;
            broker.close().await?;
            return ended.map(drop);
        }
    };
    let completed = match &mut answering {
        Answering::Gateway(serving) => serving.complete(&worker, &config, &stop),
        Answering::Health(health) => health.complete(&worker, &config, &stop),
        Answering::Nothing => Ok(()),
    };
    let ended = match (completed, answering) {
        (Err(error), _) => Err(error),
        (Ok(()), Answering::Gateway(serving)) => serve(serving, announced, &worker, &stop, output).await,
        (Ok(()), Answering::Health(health)) => {
            work(&args.only, Some(health), announced, &worker, &stop, output).await
        }
        (Ok(()), Answering::Nothing) => work(&args.only, None, announced, &worker, &stop, output).await,
    };
    end(ended, worker, &stop).await
}

/// What a process answers on.
enum Answering {
    Gateway(Serving),
    Health(Health),
    Nothing,
}

impl Answering {
    /// Returns once it was asked to end and has.
    async fn ended(self) -> anyhow::Result<()> {
        match self {
            Self::Gateway(serving) => serving.ended().await,
            Self::Health(health) => health.ended().await,
            Self::Nothing => Ok(()),
        }
    }
}

/// That the line which says where it listens was printed already.
#[derive(Debug, Clone, Copy)]
struct Announced;

/// Waits for all that is needed. When that takes long, the line that says where it listens is printed meanwhile.
#[allow(clippy::too_many_arguments, reason = "each is another thing, and the one caller is above")]
async fn open_all(
    broker: &Arc<dyn Broker>,
    config: &Config,
    stages: Runs,
    parts: &[Part],
    readiness: &Readiness,
    answering: &Answering,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<Option<(Worker, Option<Announced>)>> {
    // URLs are accepted as soon as the broker is there, whatever else is missing.
    let urls = async {
        if let Answering::Gateway(serving) = answering {
            let queue = open::url_queue(config, &**broker);
            let opening = Opening { readiness, until: Some(stop) };
            let declared = opening::declare(broker, &[queue], &opening).await;
            if opening::unless_asked_to_end(declared)?.is_some() {
                serving.inventory.queue_is_declared();
            }
        }
        anyhow::Ok(())
    };
    let worker = Worker::start_patiently(broker.clone(), config, stages, readiness, stop.clone());
    let all = async { tokio::try_join!(worker, urls) };
    tokio::pin!(all);
    let mut announced = None;
    let worker = loop {
        let listens = !matches!(answering, Answering::Nothing);
        tokio::select! {
            opened = &mut all => break opened?.0,
            () = tokio::time::sleep(PATIENCE), if announced.is_none() && listens => {
                match answering {
                    Answering::Gateway(serving) => announce(serving, output)?,
                    Answering::Health(health) => announce_parts(parts, Some(health), "starting", output)?,
                    Answering::Nothing => {}
                }
                announced = Some(Announced);
            }
        }
    };
    Ok(worker.map(|worker| (worker, announced)))
}

/// Serves until asked to end, or until the stages have broken.
async fn serve(
    serving: Serving,
    announced: Option<Announced>,
    worker: &Worker,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<()> {
    if announced.is_none() {
        announce(&serving, output)?;
    }
    serving.until_the_end(worker, stop).await
}

async fn end(ended: anyhow::Result<()>, mut worker: Worker, stop: &Stop) -> anyhow::Result<()> {
    stop.request();
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
    health: Option<Health>,
    announced: Option<Announced>,
    worker: &Worker,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<()> {
    if announced.is_none() {
        announce_parts(parts, health.as_ref(), "at work", output)?;
    }
    let ended = worker.until_the_end(stop).await;
    match health {
        Some(health) => ended.and(health.ended().await),
        None => ended,
    }
}

/// Says which parts run here, and where they answer for health and metrics.
fn announce_parts(
    parts: &[Part],
    health: Option<&Health>,
    state: &str,
    output: &mut Output,
) -> anyhow::Result<()> {
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    let metrics = health.map(Health::metrics_url);
    if output.is_json() {
        let mut told = json!({ "parts": names, "pid": process::id() });
        if let Some(metrics) = metrics {
            told["metrics"] = metrics.into();
        }
        output.line(&told.to_string())?;
    } else {
        let metrics = metrics.map(|url| format!(", with metrics at {url}")).unwrap_or_default();
        output.line(&format!("{} {state}{metrics}; Ctrl-C ends it", names.join(" and ")))?;
    }
    output.flush()?;
    Ok(())
}

/// The gateway of a flow whose worker is another process, until asked to end.
async fn serve_alone(config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let listening = listen(config).await?;
    let stop = stop_on_signals()?;
    let broker = open::broker_later(config).await?;
    let readiness = Readiness::starting(open::needs_of_inventory_alone(config), stop.clone());
    let serving = Serving::begin(listening, &broker, config, Vec::new(), &readiness, &stop)?;
    announce(&serving, output)?;
    let opening = Opening { readiness: &readiness, until: Some(&stop) };
    let declared = async {
        let queue = open::url_queue(config, &*broker);
        let declared = opening::declare(&broker, &[queue], &opening).await;
        if opening::unless_asked_to_end(declared)?.is_some() {
            serving.inventory.queue_is_declared();
        }
        Ok(())
    };
    let opened = tokio::try_join!(opening::urls_alone(config, &opening), declared);
    match &opened {
        Ok((Some(urls), ())) => serving.complete_alone(urls.clone(), &readiness, config),
        Ok((None, ())) => {}
        Err(_) => stop.request(),
    }
    let ended = serving.ended().await;
    broker.close().await?;
    opened.map(drop).and(ended)
}

/// Says where it listens.
fn announce(serving: &Serving, output: &mut Output) -> anyhow::Result<()> {
    let (address, url) = (serving.address, serving.url());
    if output.is_json() {
        // On one line, so that whoever waits for it knows when it is whole.
        output.line(&json!({ "address": address, "url": url, "pid": process::id() }).to_string())?;
    } else {
        output.line(&format!("the API is at {url}/api/ and described at {url}/api/docs/; Ctrl-C ends it"))?;
    }
    output.flush()?;
    Ok(())
}

/// Refuses settings with which a process of these parts could not run. Asks no server.
pub(super) fn check(only: &[Part], config: &Config) -> Result<(), Problems> {
    let gateway = only.is_empty() || only.contains(&Part::Gateway);
    let mut problems: Vec<Problem> =
        check_parts(only, config).err().map(Problem::plain).into_iter().collect();
    if let Err(Problems(others)) = open::check(config, open::Listens { gateway, health: !gateway }) {
        problems.extend(others);
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// What one process owns must be whole in one process.
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
            "with `only_worker` a process is the gateway (--only {}) or the worker (--only {}), and nothing else",
            Part::Gateway.name(),
            Part::Inventory.name()
        ));
    }
    Err(format!(
        "--only leaves out {}, but these are embedded and owned by one process: {owned}; all parts must be in it, so \
         leave --only out, or use stores that are shared",
        missing.join(" and ")
    ))
}
