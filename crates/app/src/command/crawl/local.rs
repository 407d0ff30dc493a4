//! Crawl in this process, on the data directory.

use super::{
    CrawlArgs, POLL_INTERVAL,
    out::Out,
    progress::{Progress, ProgressMode},
    report::{CrawlReport, seconds},
};
use crate::{
    config::Config,
    failure::UsageError,
    flows::{self, SearchFlow},
    output::{Output, warn},
    role::Role,
    worker::{Overrides, Worker, stop_on_signals},
};
use anyhow::bail;
use crawlway_flow::Shutdown;
use crawlway_flows::search::{
    CrawlRequest, Definition, DefinitionState, Export, StartedCrawl, add_sitemaps, crawler_queue,
    failed_seeds, start_crawl,
};
use crawlway_gateway::dto::SeedFailure;
use crawlway_store::frontier::{Crawl, CrawlState};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

pub(super) async fn run(args: CrawlArgs, mut config: Config, output: &mut Output) -> anyhow::Result<()> {
    let progress_mode = args.progress_mode(output);
    let definition = Definition {
        seeds: args.seeds,
        sitemaps: args.sitemaps,
        hosts: args.hosts,
        include: args.include,
        exclude: args.exclude,
        max_depth: args.max_depth,
        max_pages: args.max_pages.map(std::num::NonZeroU64::get),
        recrawl_after: args.recrawl_after.unwrap_or(config.search.recrawl_after()),
        traps: config.search.traps(),
        state: DefinitionState::default(),
    };
    flows::require(&config, "search").map_err(UsageError)?;
    if config.one_process_per_stage {
        bail!(UsageError(
            "these settings are shared by several processes; use the gateway of the process with search:crawl, with \
             --gateway URL"
                .to_owned()
        ));
    }
    if config.shares_anything() && !config.only_process {
        bail!(UsageError(
            "these settings are shared by several processes, and the workers of the others would crawl with other settings; \
             use their gateway with --gateway URL, or run `crawlway up` here and this command beside it, or set \
             `only_process = true` if there is no other process"
                .to_owned()
        ));
    }
    // Refused before anything is opened.
    let definition = definition.checked().map_err(|error| UsageError(error.to_string()))?;
    config.fetch.override_pace(args.per_host_concurrency, args.min_delay).map_err(UsageError)?;
    let file = args.out.as_ref().map(|out| out.open(definition.recrawl_after)).transpose()?;
    if args.out.as_ref().is_some_and(Out::is_standard_output) {
        output.redirect_to_stderr();
    }
    let stop = stop_on_signals()?;
    let began = Instant::now();
    let crawl_request = CrawlRequest { name: args.name, definition, fresh: args.fresh, file: file.clone() };
    let overrides = Overrides {
        allow: args.allow,
        robots: !args.no_robots,
        export: file.clone(),
        only: Some(crawl_request.name()),
        ..Overrides::default()
    };
    let role = Role::stages(&SearchFlow, &["crawl", "index"]);
    let mut worker = Worker::start(&config, &role, overrides, stop.clone()).await?;
    let started = crawl(&worker, crawl_request, file, progress_mode, &stop).await;
    let drained = worker.drain().await;
    let ended = match &started {
        // After the drain, so that the counts are final.
        Ok(started) => end(&worker, started, began).await,
        Err(_) => Err(anyhow::anyhow!("the crawl was not started")),
    };
    worker.close().await?;
    drained?;
    started?;
    let (report, left) = ended?;
    let complete = left == 0
        && !report.sitemaps_unread
        && matches!(report.state, CrawlState::Finished | CrawlState::Limited);
    let report = CrawlReport { out: args.out.map(|out| out.to_string()), ..report };
    report.finish(complete, output)
}

/// Result of the run, and the number of pages still to be indexed or written. An interrupted crawl is paused, so that it does
/// not look as if it were running.
async fn end(worker: &Worker, started: &StartedCrawl, began: Instant) -> anyhow::Result<(CrawlReport, u64)> {
    let (frontier, trails) = (&*worker.stores.frontier()?, &*worker.stores.trails()?);
    let (crawl, left) = status(worker, started).await?;
    let mut crawl = crawl.unwrap_or_else(|| started.crawl.clone());
    if crawl.state == CrawlState::Running {
        crawl = frontier.set_state(&crawl.id, CrawlState::Paused).await?.unwrap_or(crawl);
    }
    let failed = match crawl.state.has_ended() {
        true => failed_seeds(frontier, trails, &crawl).await?,
        false => Vec::new(),
    };
    let failed_seeds = failed.into_iter().map(SeedFailure::from).collect();
    let not_indexed = worker.handles.broker.depth(&crawler_queue()).await?.dead;
    Ok((
        CrawlReport { failed_seeds, not_indexed, ..local_report(worker, started, crawl, began.elapsed()) },
        left,
    ))
}

/// Result of a crawl in this process.
pub(in crate::command) fn local_report(
    worker: &Worker,
    started: &StartedCrawl,
    crawl: Crawl,
    took: Duration,
) -> CrawlReport {
    CrawlReport {
        crawl: crawl.id.to_string(),
        state: crawl.state,
        new: started.new,
        added: started.added,
        again: started.reopened,
        recent: started.recent,
        skipped: increase(&crawl.counts.outcomes, &started.outcomes, "seen"),
        joined_hosts: joined_hosts(&crawl),
        failed_seeds: Vec::new(),
        seconds: seconds(took),
        indexed: outcome_count(worker, "index", "indexed"),
        written: outcome_count(worker, "export", "exported"),
        counts: crawl.counts.into(),
        not_indexed: 0,
        out: None,
        was_not_indexed: started.was_not_indexed,
        sitemaps_unread: started.sitemaps_unread,
        how_to_continue: "the same command continues the crawl".to_owned(),
    }
}

/// Increase of the count of an outcome.
pub(super) fn increase(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>, outcome: &str) -> u64 {
    let count = |outcomes: &BTreeMap<String, u64>| outcomes.get(outcome).copied().unwrap_or_default();
    count(now).saturating_sub(count(before))
}

fn joined_hosts(crawl: &Crawl) -> Vec<String> {
    let definition: Option<Definition> = serde_json::from_str(&crawl.definition).ok();
    definition.map(|definition| definition.state.joined_hosts).unwrap_or_default()
}

/// Number of items that ended with an outcome in a stage of this process.
fn outcome_count(worker: &Worker, stage: &str, outcome: &str) -> u64 {
    let meter = worker.handles.meters.read().into_iter().find(|meter| meter.stage == stage);
    meter.and_then(|of| of.meter.read().outcomes.get(outcome).copied()).unwrap_or_default()
}

/// Crawls until all pages are indexed or written, or until a stop is requested. Returns how the crawl began.
pub(in crate::command) async fn crawl(
    worker: &Worker,
    crawl_request: CrawlRequest,
    file: Option<Arc<Export>>,
    progress_mode: ProgressMode,
    stop: &Shutdown,
) -> anyhow::Result<StartedCrawl> {
    let (frontier, fetcher) = (worker.stores.frontier()?, worker.fetcher()?);
    let mut started = start_crawl(&*frontier, &*worker.stores.seen()?, &crawl_request).await?;
    let id = started.crawl.id.clone();
    // In a task of its own, so that slow sitemaps do not delay the crawl.
    let mut sitemaps = crawl_request.definition.sitemaps.then(|| {
        let (frontier, fetcher) = (frontier.clone(), fetcher.clone());
        let (request, id, definition) =
            (worker.handles.request.clone(), id.clone(), crawl_request.definition);
        tokio::spawn(async move { add_sitemaps(&*frontier, &fetcher, &request, &id, &definition).await })
    });
    worker.handles.wake();
    let mut progress = Progress::new(progress_mode, if file.is_some() { "written" } else { "indexed" });
    loop {
        let (crawl, left) = status(worker, &started).await?;
        let crawl = crawl.unwrap_or_else(|| started.crawl.clone());
        if let Some(read) = sitemaps.take_if(|reading| reading.is_finished()) {
            let (added, errors) = read.await??;
            started.added += added;
            for error in errors {
                warn(&format!("sitemap: {error}"));
            }
            worker.handles.wake();
            continue;
        }
        let over = crawl.state.has_ended() && left == 0 && sitemaps.is_none();
        let fetching = fetching(worker);
        let waits_for = match crawl.state {
            CrawlState::Paused => Some(format!("paused; `crawlway crawl resume {id}` resumes it")),
            _ if fetching == 0 && !over => {
                let reading = || sitemaps.is_some().then(|| "waiting for the sitemaps".to_owned());
                fetcher.delayed_hosts_summary().or_else(reading)
            }
            _ => None,
        };
        progress.show(&crawl.counts.into(), fetching, left, waits_for.as_deref());
        // The reader of standard output has closed the pipe.
        let closed = file.as_ref().is_some_and(|file| file.is_closed());
        if over || closed || stop.is_requested() {
            progress.end();
            if let Some(reading) = sitemaps {
                reading.abort();
                started.sitemaps_unread = true;
            }
            return Ok(started);
        }
        if worker.has_failed() {
            bail!("a stage failed; see the log");
        }
        let next = if crawl.state.has_ended() && sitemaps.is_none() {
            // No more pages follow, so that no batch needs to fill up.
            stop.flush();
            POLL_INTERVAL / 4
        } else {
            POLL_INTERVAL
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            _ = stop.requested() => {}
        }
    }
}

fn fetching(worker: &Worker) -> u64 {
    let crawl = worker.handles.meters.read().into_iter().find(|meter| meter.stage == "crawl");
    crawl.map_or(0, |crawl| crawl.meter.read().running)
}

/// The crawl, and the number of pages still to be indexed or written.
async fn status(worker: &Worker, started: &StartedCrawl) -> anyhow::Result<(Option<Crawl>, u64)> {
    let crawl = worker.stores.frontier()?.crawl(&started.crawl.id).await?;
    Ok((crawl, worker.to_be_indexed().await?))
}
