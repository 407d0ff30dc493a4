//! `crawlway up`: the gateway and the workers, until asked to end.

use crate::{
    config::Config,
    failure::UsageError,
    open,
    output::Output,
    presence,
    worker::{Worker, stop_on_signals, worker_name},
};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum, builder::PossibleValue};
use crawlway_clock::Clock;
use crawlway_flow::Stop;
use crawlway_flows::search::{FLOW, Stages, WithFrontier};
use crawlway_gateway::{CrawlDefaults, Limits, Listening, Parts, StageMeter, bind, router};
use serde_json::json;
use std::{process, sync::Arc, time::Duration};

/// How often it is looked whether the stages are still at work.
const LOOK: Duration = Duration::from_millis(250);

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

JSON, one line as soon as it listens:
  {\"address\", \"url\", \"pid\"}

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
    // Before anything is opened: who is refused has changed nothing.
    open::not_while_served(&config)?;
    let address = config.gateway.listen().map_err(UsageError)?;
    let listening = bind(address, config.gateway.access()).await.map_err(|error| match error {
        crawlway_gateway::BindError::Unprotected { .. } => anyhow::Error::new(UsageError(error.to_string())),
        other => other.into(),
    })?;
    let stop = stop_on_signals()?;
    let stages = Stages { crawl: true, index: true };
    let mut worker = Worker::start(&config, &[], true, stages, None, stop.clone()).await?;
    let served = serve(listening, &worker, &config, &stop, output).await;
    let drained = worker.drain().await;
    let closed = worker.close().await;
    served.and(drained).and(closed)
}

/// Serves until asked to end, or until the stages have broken.
async fn serve(
    listening: Listening,
    worker: &Worker,
    config: &Config,
    stop: &Stop,
    output: &mut Output,
) -> anyhow::Result<()> {
    let address = listening.address();
    let router = router(parts(worker, config, stop), config.gateway.options(address));
    let limits = Limits { drain: config.search.drain(), ..Limits::default() };
    let _presence = presence::announce(&config.data_dir, address)?;
    let url = format!("http://{address}");
    if output.is_json() {
        // On one line, so that whoever waits for it knows when it is whole.
        output.line(&json!({ "address": address, "url": url, "pid": process::id() }).to_string())?;
    } else {
        output.line(&format!("the API is at {url}/api/ and described at {url}/api/docs/; Ctrl-C ends it"))?;
    }
    output.flush()?;
    let mut serving = tokio::spawn(listening.serve(router, limits, stop.clone()));
    let broke = loop {
        tokio::select! {
            ended = &mut serving => {
                ended.context("the gateway broke")?;
                break false;
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        if worker.broke() {
            stop.request();
            serving.await.context("the gateway broke")?;
            break true;
        }
    };
    if broke {
        bail!("the stages ended by themselves; the log says why");
    }
    Ok(())
}

fn parts(worker: &Worker, config: &Config, stop: &Stop) -> Parts {
    let meters = worker.meters.iter();
    Parts {
        broker: Arc::new(WithFrontier::new(worker.broker.clone(), worker.records.frontier.clone())),
        frontier: worker.records.frontier.clone(),
        trails: worker.records.trails.clone(),
        index: worker.index.clone(),
        fetcher: worker.fetcher.clone(),
        request: worker.request.clone(),
        crawl_defaults: CrawlDefaults {
            recrawl_after: config.search.recrawl_after(),
            traps: config.search.traps(),
        },
        wake: worker.wake.clone(),
        meters: meters.map(|(stage, meter)| StageMeter { flow: FLOW, stage, meter: meter.clone() }).collect(),
        broken: Arc::new(worker.watch()),
        clock: Clock::System,
        worker: worker_name(),
        stop: stop.clone(),
    }
}

/// What one process owns must be whole in one process.
fn check_parts(only: &[Part], config: &Config) -> anyhow::Result<()> {
    let missing: Vec<&str> =
        Part::value_variants().iter().filter(|part| !only.contains(part)).map(|part| part.name()).collect();
    if only.is_empty() || missing.is_empty() {
        return Ok(());
    }
    let owned = open::owned_by_one_process(config).join(", ");
    bail!(UsageError(format!(
        "--only leaves out {}, but these are embedded and owned by one process: {owned}; gateway, worker:crawl and \
         worker:index must all be in it, so leave --only out, or use stores that are shared",
        missing.join(" and ")
    )))
}
