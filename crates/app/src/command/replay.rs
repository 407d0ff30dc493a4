//! `crawlway replay`: runs a stage again from what is stored, without fetching.

use crate::{
    ask::Place,
    config::Config,
    failure::{ExitKind, Told},
    output::Output,
    worker::{Runs, Terms, Worker, stop_on_signals, worker_name},
};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use crawlway_clock::Clock;
use crawlway_flow::Stop;
use crawlway_flows::search::{Stages, reindex};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::{
    io::{IsTerminal, stderr},
    ops::ControlFlow,
    time::Duration,
};

/// Run a stage again from what is stored, without fetching
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway replay index         publish every stored page to `crawler_queue` again and index it anew

What was given up is replayed with `crawlway dead replay`. This needs the data directory for itself:
while a gateway runs on it, it is refused.

JSON:
  {\"stage\", \"replayed\"}

Exit codes: 0 everything is indexed anew; 1 it failed; 2 the command line or a setting is wrong;
3 it was asked to stop before the end.")]
pub(super) struct ReplayArgs {
    #[command(subcommand)]
    stage: Stage,
}

#[derive(Debug, Subcommand)]
enum Stage {
    /// Index every stored page anew; the trail of each says so
    Index,
}

pub(super) async fn run(args: ReplayArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let Stage::Index = args.stage;
    if let Place::Gateway(client) = Place::of(config)? {
        bail!(
            "the gateway at {} has the pages, and only a process that has them for itself can index them anew; stop it \
             first, and name none with --gateway",
            client.shown()
        );
    }
    crate::open::existing_page_index(config).await?.close().await?;
    let stop = stop_on_signals()?;
    // Nothing is fetched meanwhile, whatever crawl was not finished.
    let stages = Stages { crawl: false, index: true };
    let mut worker =
        Worker::start(config, Terms::default(), Runs::only_search(stages), None, stop.clone()).await?;
    let replayed = replay(&worker, config.search.max_message(), &stop).await;
    let asked_to_stop = stop.is_requested();
    let drained = worker.drain().await;
    let left = worker.to_be_indexed().await;
    worker.close().await?;
    drained?;
    let (replayed, left) = (replayed?, left?);
    let whole = left == 0 && !asked_to_stop;
    if output.is_json() {
        output.json(&json!({ "stage": "index", "replayed": replayed }))?;
    } else if whole {
        output.line(&format!("indexed {} anew", super::counted(replayed, "page", "pages")))?;
    } else {
        let pages = super::counted(replayed, "page was", "pages were");
        output.line(&format!("{pages} published again before it was asked to stop"))?;
    }
    output.flush()?;
    if whole { Ok(()) } else { Err(Told(ExitKind::Stopped).into()) }
}

/// Publishes everything again and waits until it is indexed, or until asked to stop. Says how many were published.
async fn replay(worker: &Worker, most_bytes: usize, stop: &Stop) -> anyhow::Result<u64> {
    let index = worker.index.as_deref().context("the pages are stored in no index")?;
    let bar = bar(index.count().await?);
    let told = |count| {
        bar.set_position(count);
        if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let replayed = reindex(
        index,
        &*worker.broker,
        &*worker.records.trails,
        &Clock::System,
        &worker_name(),
        &worker.queue.name,
        most_bytes,
        told,
    )
    .await?;
    while !stop.is_requested() && !worker.broke() && worker.to_be_indexed().await? > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bar.finish_and_clear();
    Ok(replayed)
}

fn bar(pages: u64) -> ProgressBar {
    let target =
        if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(pages), target);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} pages published again");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
