//! A crawl by this process, in the data directory.

use super::{
    CrawlArgs, LOOK,
    out::Out,
    progress::{Progress, Watch},
    told::{Crawled, seconds},
};
use crate::{
    config::Config,
    failure::UsageError,
    output::{Output, warn},
    worker::{Runs, Terms, Worker, stop_on_signals},
};
use anyhow::bail;
use crawlway_flow::Stop;
use crawlway_flows::search::{
    Asked, Definition, Export, Stages, Started, TermsState, add_sitemaps, begin, failed_seeds,
};
use crawlway_gateway::shape::SeedFailure;
use crawlway_store::frontier::{Crawl, CrawlState};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

pub(super) async fn run(args: CrawlArgs, mut config: Config, output: &mut Output) -> anyhow::Result<()> {
    let watch = args.watch(output);
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
        state: TermsState::default(),
    };
    if config.is_for_many() {
        bail!(UsageError(
            "these settings are for many processes, which would work on this crawl on their terms, as this one would on \
             theirs; ask a gateway of theirs with --gateway URL, or run `crawlway up` here and this command beside it, or \
             set `only_process = true` if there is no other"
                .to_owned()
        ));
    }
    // Refused before anything is opened.
    let definition = definition.checked().map_err(|error| UsageError(error.to_string()))?;
    config.fetch.override_pace(args.in_flight, args.gap).map_err(UsageError)?;
    let file = args.out.as_ref().map(|out| out.open(definition.recrawl_after)).transpose()?;
    if args.out.as_ref().is_some_and(Out::is_standard_output) {
        output.leave_standard_output();
    }
    let stop = stop_on_signals()?;
    let stages = Stages { crawl: true, index: true };
    let began = Instant::now();
    let asked = Asked { name: args.name, definition, fresh: args.fresh, file: file.clone() };
    let only = Some(asked.name());
    let terms = Terms { allow: args.allow, robots: !args.no_robots, ..Terms::default() };
    let mut worker = Worker::start_into(
        file.clone(),
        &config,
        terms,
        Runs::only_search(stages),
        only.as_ref(),
        stop.clone(),
    )
    .await?;
    let started = crawl(&worker, asked, file, watch, &stop).await;
    let drained = worker.drain().await;
    let ended = match &started {
        // As it is now that what was in flight is finished.
        Ok(started) => end(&worker, started, began).await,
        Err(_) => Err(anyhow::anyhow!("the crawl was not started")),
    };
    worker.close().await?;
    drained?;
    started?;
    let (crawled, left) = ended?;
    let finished = left == 0
        && !crawled.sitemaps_unread
        && matches!(crawled.state, CrawlState::Finished | CrawlState::Limited);
    let told = Crawled { out: args.out.map(|out| out.to_string()), ..crawled };
    told.end(finished, output)
}

/// What the crawl has come to, and how many pages are still to be indexed or written. One that was interrupted waits for
/// the same command, and does not look as if it ran.
async fn end(worker: &Worker, started: &Started, began: Instant) -> anyhow::Result<(Crawled, u64)> {
    let (frontier, trails) = (&*worker.records.frontier, &*worker.records.trails);
    let (crawl, left) = how_far(worker, started).await?;
    let mut crawl = crawl.unwrap_or_else(|| started.crawl.clone());
    if crawl.state == CrawlState::Running {
        crawl = frontier.set_state(&crawl.id, CrawlState::Paused).await?.unwrap_or(crawl);
    }
    let failed = match crawl.state.has_ended() {
        true => failed_seeds(frontier, trails, &crawl).await?,
        false => Vec::new(),
    };
    let failed_seeds = failed.into_iter().map(SeedFailure::from).collect();
    let not_indexed = worker.broker.depth(&worker.queue.name).await?.dead;
    Ok((Crawled { failed_seeds, not_indexed, ..crawled(worker, started, crawl, began.elapsed()) }, left))
}

/// What a crawl by this process has come to.
pub(in crate::command) fn crawled(
    worker: &Worker,
    started: &Started,
    crawl: Crawl,
    took: Duration,
) -> Crawled {
    Crawled {
        crawl: crawl.id.to_string(),
        state: crawl.state,
        new: started.new,
        added: started.added,
        again: started.again,
        recent: started.recent,
        skipped: since(&crawl.counts.outcomes, &started.outcomes, "seen"),
        joined_hosts: joined_hosts(&crawl),
        failed_seeds: Vec::new(),
        seconds: seconds(took),
        indexed: ended(worker, "index", "indexed"),
        written: ended(worker, "export", "exported"),
        counts: crawl.counts.into(),
        not_indexed: 0,
        out: None,
        was_not_indexed: started.was_not_indexed,
        sitemaps_unread: started.sitemaps_unread,
        rest: "the same command goes on with the rest".to_owned(),
    }
}

/// How much more often an outcome has come since these.
pub(super) fn since(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>, outcome: &str) -> u64 {
    let count = |outcomes: &BTreeMap<String, u64>| outcomes.get(outcome).copied().unwrap_or_default();
    count(now).saturating_sub(count(before))
}

fn joined_hosts(crawl: &Crawl) -> Vec<String> {
    let definition: Option<Definition> = serde_json::from_str(&crawl.definition).ok();
    definition.map(|definition| definition.state.joined_hosts).unwrap_or_default()
}

/// How often a stage of this process has ended with this outcome.
fn ended(worker: &Worker, stage: &str, outcome: &str) -> u64 {
    let meter = worker.meters.iter().find(|meter| meter.stage == stage);
    meter.and_then(|of| of.meter.read().outcomes.get(outcome).copied()).unwrap_or_default()
}

/// Crawls until the crawl is finished and its pages are where they end, or until asked to stop. Answers how it began.
pub(in crate::command) async fn crawl(
    worker: &Worker,
    asked: Asked,
    file: Option<Arc<Export>>,
    watch: Watch,
    stop: &Stop,
) -> anyhow::Result<Started> {
    let frontier = &*worker.records.frontier;
    let mut started = begin(frontier, &*worker.seen, &asked).await?;
    let id = started.crawl.id.clone();
    // What is waited for does not hold up the pages that are known.
    let mut sitemaps = asked.definition.sitemaps.then(|| {
        let (frontier, fetcher) = (worker.records.frontier.clone(), worker.fetcher.clone());
        let (request, id, definition) = (worker.request.clone(), id.clone(), asked.definition);
        tokio::spawn(async move { add_sitemaps(&*frontier, &fetcher, &request, &id, &definition).await })
    });
    (worker.wake)();
    let mut progress = Progress::new(watch, if file.is_some() { "written" } else { "indexed" });
    loop {
        let (crawl, left) = how_far(worker, &started).await?;
        let crawl = crawl.unwrap_or_else(|| started.crawl.clone());
        if let Some(read) = sitemaps.take_if(|reading| reading.is_finished()) {
            let (added, troubles) = read.await??;
            started.added += added;
            for trouble in troubles {
                warn(&format!("sitemap: {trouble}"));
            }
            (worker.wake)();
            continue;
        }
        let over = crawl.state.has_ended() && left == 0 && sitemaps.is_none();
        let fetching = fetching(worker);
        let waits_for = match crawl.state {
            CrawlState::Paused => Some(format!("paused: `crawlway crawl resume {id}` lets it go on")),
            _ if fetching == 0 && !over => {
                let reading = || sitemaps.is_some().then(|| "waiting for its sitemaps".to_owned());
                worker.fetcher.waits_for().or_else(reading)
            }
            _ => None,
        };
        progress.show(&crawl.counts.into(), fetching, left, waits_for.as_deref());
        // Who read has read enough.
        let unread = file.as_ref().is_some_and(|file| file.is_closed());
        if over || unread || stop.is_requested() {
            progress.end();
            if let Some(reading) = sitemaps {
                reading.abort();
                started.sitemaps_unread = true;
            }
            return Ok(started);
        }
        if worker.broke() {
            bail!("the stages ended by themselves; the log says why");
        }
        let next = if crawl.state.has_ended() && sitemaps.is_none() {
            // What waits for more pages would wait in vain, and the end is near.
            stop.hurry();
            LOOK / 4
        } else {
            LOOK
        };
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            _ = stop.requested() => {}
        }
    }
}

fn fetching(worker: &Worker) -> u64 {
    let crawl = worker.meters.iter().find(|meter| meter.stage == "crawl");
    crawl.map_or(0, |crawl| crawl.meter.read().running)
}

/// The crawl as it is now, and how many pages are still to be indexed or written.
async fn how_far(worker: &Worker, started: &Started) -> anyhow::Result<(Option<Crawl>, u64)> {
    let crawl = worker.records.frontier.crawl(&started.crawl.id).await?;
    Ok((crawl, worker.to_be_indexed().await?))
}
