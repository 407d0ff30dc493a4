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
use crawlway_flows::search::{HtmlReplay, crawler_queue, reindex};
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
  crawlway replay crawl         parse the kept HTML of all pages again, then the same

`crawl` needs HTML that was kept by `search.keep_html`. It follows no links, and fetches nothing.

Dead letters are replayed by `crawlway dead replay`. This command needs exclusive access to the data
directory, so no gateway may run on it.

JSON:
  {\"stage\", \"replayed\"}

Exit codes: 0 success; 1 failure; 2 invalid command line or setting; 3 stopped before the end.")]
pub(super) struct ReplayArgs {
    #[command(subcommand)]
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Stage {
    /// Reindex all stored pages; each gets a trail entry
    Index,
    /// Parse the kept HTML of all pages again, and reindex them; each gets a trail entry
    Crawl,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Crawl => "crawl",
        }
    }
}

pub(super) async fn run(args: ReplayArgs, config: &Config, output: &mut Output) -> anyhow::Result<()> {
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
    let replayed = replay(&worker, args.stage, config, &stop).await;
    let stopped = stop.is_requested();
    let drained = worker.drain().await;
    let left = worker.to_be_indexed().await;
    worker.close().await?;
    drained?;
    let (replayed, left) = (replayed?, left?);
    let complete = left == 0 && !stopped;
    if output.is_json() {
        output.json(&json!({ "stage": args.stage.name(), "replayed": replayed }))?;
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
async fn replay(worker: &Worker, stage: Stage, config: &Config, stop: &Shutdown) -> anyhow::Result<u64> {
    let (index, trails) = (&*worker.stores.index()?, &*worker.stores.trails()?);
    let (broker, queue, name) = (&*worker.handles.broker, crawler_queue(), worker_name());
    let max_bytes = config.search.max_message();
    let bar = bar(index.count().await?);
    let on_progress = |count| {
        bar.set_position(count);
        if stop.is_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let replayed = match stage {
        Stage::Index => {
            reindex(index, broker, trails, &Clock::System, &name, &queue, max_bytes, on_progress).await?
        }
        Stage::Crawl => {
            let replay = HtmlReplay {
                blobs: &*worker.handles.blobs,
                index,
                broker,
                trails,
                clock: &Clock::System,
                worker: &name,
                queue: &queue,
                options: &config.search.settings(worker.handles.request.clone()).crawl,
                max_bytes: (worker.handles.request.limits.decoded_bytes, max_bytes),
            };
            replay.run(on_progress).await?
        }
    };
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
