//! `crawlway replay`: runs a stage again from what is stored, without fetching.

use crate::{
    config::Config,
    output::Output,
    worker::{Worker, stop_on_signals, worker_name},
};
use clap::{Args, Subcommand};
use crawlway_clock::Clock;
use crawlway_flows::search::reindex;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

/// Run a stage again from what is stored, without fetching
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway replay index         publish every stored page to `crawler_queue` again and index it anew

What was given up is replayed with `crawlway dead replay`.

JSON:
  {\"stage\", \"replayed\"}")]
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
    crate::open::existing_page_index(config).await?.close().await?;
    let stop = stop_on_signals()?;
    let worker = Worker::start(config, &[], true, stop.clone()).await?;
    let bar = bar(worker.index.count().await?);
    let replayed = reindex(
        &*worker.index,
        &*worker.broker,
        &*worker.records.trails,
        &Clock::System,
        &worker_name(),
        &worker.queue.name,
        |count| bar.set_position(count),
    )
    .await;
    while !stop.is_requested() && !worker.broke() && worker.to_be_indexed().await? > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bar.finish_and_clear();
    worker.end().await?;
    let replayed = replayed?;
    if output.is_json() {
        return Ok(output.json(&json!({ "stage": "index", "replayed": replayed }))?);
    }
    Ok(output.line(&format!("indexed {} anew", super::counted(replayed, "page", "pages")))?)
}

fn bar(pages: u64) -> ProgressBar {
    let target =
        if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(pages), target);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} pages published again");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
