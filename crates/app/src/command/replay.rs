//! `crawlway replay`: runs a stage again on the stored pages, without fetching.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind, UsageError},
    flows::SearchFlow,
    output::Output,
    process::worker_name,
    role::Role,
    service::Target,
    sharing,
    worker::{Overrides, Worker, stop_on_signals},
};
use anyhow::bail;
use clap::{Args, Subcommand};
use crawlway_clock::Clock;
use crawlway_flow::Shutdown;
use crawlway_flows::search::{crawler_queue, reindex};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::{
    io::{IsTerminal, stderr},
    ops::ControlFlow,
    time::Duration,
};

/// Run a stage again on the stored pages, without fetching
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway replay index         publish all stored pages to `crawler_queue` and reindex them

Dead letters are replayed by `crawlway dead replay`. This command needs exclusive access to the data
directory, so no gateway may run on it.

JSON:
  {\"stage\", \"replayed\"}

Exit codes: 0 success; 1 failure; 2 invalid command line or setting; 3 stopped before the end.")]
pub(super) struct ReplayArgs {
    #[command(subcommand)]
    stage: Stage,
}

#[derive(Debug, Subcommand)]
enum Stage {
    /// Reindex all stored pages; each gets a trail entry
    Index,
}

pub(super) async fn run(args: ReplayArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    let Stage::Index = args.stage;
    if let Target::Remote(client) = Target::of(config)? {
        bail!(
            "reindexing needs exclusive access, and the gateway at {} has the index open; stop it first, and leave \
             --gateway out",
            client.base_url()
        );
    }
    crate::open::existing_page_index(config).await?.close().await?;
    let stop = stop_on_signals()?;
    // Without the crawl stage, so that unfinished crawls do not continue.
    let role = Role::stages(&SearchFlow, &["index"]);
    sharing::check_ownership(config, &role).map_err(UsageError)?;
    let mut worker = Worker::start(config, &role, Overrides::default(), stop.clone()).await?;
    let replayed = replay(&worker, config.search.max_message(), &stop).await;
    let stopped = stop.is_requested();
    let drained = worker.drain().await;
    let left = worker.to_be_indexed().await;
    worker.close().await?;
    drained?;
    let (replayed, left) = (replayed?, left?);
    let complete = left == 0 && !stopped;
    if output.is_json() {
        output.json(&json!({ "stage": "index", "replayed": replayed }))?;
    } else if complete {
        output.line(&format!("reindexed {}", super::counted(replayed, "page", "pages")))?;
    } else {
        let pages = super::counted(replayed, "page was", "pages were");
        output.line(&format!("stopped: {pages} published again"))?;
    }
    output.flush()?;
    if complete { Ok(()) } else { Err(AlreadyReported(ExitKind::Stopped).into()) }
}

/// Publishes all pages and waits until they are indexed, or until a stop is requested. Returns the number published.
async fn replay(worker: &Worker, max_bytes: usize, stop: &Shutdown) -> anyhow::Result<u64> {
    let index = &*worker.stores.index()?;
    let bar = bar(index.count().await?);
    let on_progress = |count| {
        bar.set_position(count);
        if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let replayed = reindex(
        index,
        &*worker.handles.broker,
        &*worker.stores.trails()?,
        &Clock::System,
        &worker_name(),
        &crawler_queue(),
        max_bytes,
        on_progress,
    )
    .await?;
    while !stop.is_requested() && !worker.has_failed() && worker.to_be_indexed().await? > 0 {
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
