//! `crawlway crawl`: crawls from some URLs until nothing is left, and makes the pages searchable.

mod progress;
mod told;

use crate::{
    config::Config,
    failure::{ExitKind, Told, UsageError},
    output::Output,
    quantity::parse_duration,
    worker::{Worker, stop_on_signals},
};
use anyhow::bail;
use clap::Args;
use crawlway_fetch::Allowed;
use crawlway_flow::Stop;
use crawlway_flows::search::{Definition, Stages, StartError, Started, start};
use crawlway_store::frontier::{Crawl, CrawlState};
use progress::Progress;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    time::{Duration, Instant},
};

/// How often it is looked how far the crawl is.
const LOOK: Duration = Duration::from_millis(100);

/// Crawl from some URLs and make the pages searchable
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway crawl https://example.org/                          the whole host
  crawlway crawl https://example.org/ --pages 500 --depth 3
  crawlway crawl https://example.org/ --host '*.example.org' --exclude '*.pdf' --sitemap
  crawlway crawl --allow 127.0.0.1/32:8080 http://127.0.0.1:8080/

A pattern is about path and query, or about the whole URL if it has `://` in it; `*` stands for
anything. Ctrl-C or SIGTERM finishes what is in flight; the same command goes on where it stopped.
Once it has finished, the same command crawls what is due again (`search.recrawl_after`), and
pages that have not changed are not fetched whole.

JSON:
  {\"crawl\", \"state\": \"running\" | \"finished\" | \"paused\" | \"cancelled\", \"new\", \"added\", \"again\", \"seconds\",
    \"indexed\", \"counts\": {\"waiting\", \"in_flight\", \"done\", \"dead\", \"fetched\", \"outcomes\": {WORD: n},
    \"left_out\": {WORD: n}}}
  `indexed` is how many pages this run has put into the index, `outcomes` are of the whole crawl.

Exit codes: 0 nothing is left to do; 1 it failed; 2 the command line or a setting is wrong;
3 it was asked to stop before the end.")]
pub(super) struct CrawlArgs {
    /// Where to begin
    #[arg(value_name = "URL", required = true)]
    seeds: Vec<String>,
    /// Visit this host too: `example.org`, `*.example.org` or `example.org:8080`; may be repeated. Without it, the
    /// hosts of the URLs are visited
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Visit only URLs that fit this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Visit no URL that fits this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Go at most so many links away from where it begins
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Fetch at most so many pages
    #[arg(long, value_name = "N")]
    pages: Option<NonZeroU64>,
    /// Read the sitemaps of the hosts too
    #[arg(long)]
    sitemap: bool,
    /// Crawl a page again after this long, whatever `search.recrawl_after` says
    #[arg(long, value_name = "TIME", value_parser = duration)]
    recrawl_after: Option<Duration>,
    /// Allow an address range that is not public, such as 127.0.0.1/32:8080; may be repeated
    #[arg(long, value_name = "RANGE")]
    allow: Vec<Allowed>,
    /// Do not ask robots.txt
    #[arg(long)]
    no_robots: bool,
    /// Have at most so many requests to one host in flight, whatever `fetch.in_flight` says
    #[arg(long, value_name = "N")]
    in_flight: Option<NonZeroUsize>,
    /// Leave a host alone for so long between two requests, whatever `fetch.gap` says
    #[arg(long, value_name = "TIME", value_parser = duration)]
    gap: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("expected {}", crate::quantity::DURATION))
}

pub(super) async fn run(args: CrawlArgs, mut config: Config, output: &mut Output) -> anyhow::Result<()> {
    let definition = Definition {
        seeds: args.seeds,
        sitemaps: args.sitemap,
        hosts: args.hosts,
        include: args.include,
        exclude: args.exclude,
        max_depth: args.depth,
        max_pages: args.pages.map(NonZeroU64::get),
        recrawl_after: args.recrawl_after.unwrap_or(config.search.recrawl_after()),
        traps: config.search.traps(),
    };
    // Refused before anything is opened.
    let definition = definition.checked().map_err(|error| UsageError(error.to_string()))?;
    config.fetch.override_pace(args.in_flight, args.gap).map_err(UsageError)?;
    let stop = stop_on_signals()?;
    let stages = Stages { crawl: true, index: true };
    let began = Instant::now();
    let only = Some(definition.id());
    let mut worker =
        Worker::start(&config, &args.allow, !args.no_robots, stages, only.as_ref(), stop.clone()).await?;
    let crawled = crawl(&worker, definition, &stop).await;
    let drained = worker.drain().await;
    let indexed = told::indexed(&worker);
    let ended = match &crawled {
        // As it is now that what was in flight is finished.
        Ok(started) => how_far(&worker, started).await,
        Err(_) => Ok((None, 0)),
    };
    worker.close().await?;
    drained?;
    let started = crawled?;
    let (crawl, left) = ended?;
    let crawl = crawl.unwrap_or_else(|| started.crawl.clone());
    let finished = left == 0 && crawl.state == CrawlState::Finished;
    let told = told::Crawled::new(&started, crawl, indexed, began.elapsed());
    if output.is_json() {
        output.json(&told)?;
    } else {
        told.tell(output)?;
    }
    output.flush()?;
    if finished { Ok(()) } else { Err(Told(ExitKind::Stopped).into()) }
}

/// Crawls until the crawl is finished and everything is indexed, or until asked to stop. Answers how it began.
async fn crawl(worker: &Worker, definition: Definition, stop: &Stop) -> anyhow::Result<Started> {
    let frontier = &*worker.records.frontier;
    let started = match start(frontier, &worker.fetcher, &worker.request, definition).await {
        Ok(started) => started,
        Err(StartError::Definition(error)) => bail!(UsageError(error.to_string())),
        Err(StartError::Store(error)) => return Err(error.into()),
    };
    for trouble in &started.troubles {
        crate::output::warn(&format!("sitemap: {trouble}"));
    }
    (worker.wake)();
    let mut progress = Progress::new();
    loop {
        let (crawl, left) = how_far(worker, &started).await?;
        let crawl = crawl.unwrap_or_else(|| started.crawl.clone());
        progress.show(&crawl, left, worker);
        let over = matches!(crawl.state, CrawlState::Finished | CrawlState::Cancelled) && left == 0;
        if over || stop.is_requested() {
            progress.end();
            return Ok(started);
        }
        if worker.broke() {
            bail!("the stages ended by themselves; the log says why");
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.requested() => {}
        }
    }
}

/// The crawl as it is now, and how many pages are still to be indexed.
async fn how_far(worker: &Worker, started: &Started) -> anyhow::Result<(Option<Crawl>, u64)> {
    let crawl = worker.records.frontier.crawl(&started.crawl.id).await?;
    Ok((crawl, worker.to_be_indexed().await?))
}
