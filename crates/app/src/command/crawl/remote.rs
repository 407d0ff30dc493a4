//! Crawl in a gateway, started and followed by this process.

use super::{
    CrawlArgs,
    local::increase,
    progress::Progress,
    report::{CrawlReport, seconds},
};
use crate::{
    failure::UsageError,
    output::{Output, warn},
    quantity::format_duration,
    service::{Client, problem_of},
    worker::stop_on_signals,
};
use anyhow::bail;
use crawlway_flows::search::crawler_queue;
use crawlway_gateway::dto::{AcceptedCrawl, CrawlView, Queue};
use crawlway_store::frontier::CrawlState;
use serde_json::json;
use std::time::{Duration, Instant};

/// Interval at which the gateway is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Time that a gateway may be unreachable, for a restart.
const GATEWAY_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn run(args: CrawlArgs, client: &Client, output: &mut Output) -> anyhow::Result<()> {
    refuse_local_flags(&args, client)?;
    let stop = stop_on_signals()?;
    let began = Instant::now();
    let body = json!({
        "name": args.name,
        "fresh": args.fresh,
        "seeds": args.seeds,
        "sitemaps": args.sitemaps,
        "hosts": args.hosts,
        "include": args.include,
        "exclude": args.exclude,
        "max_depth": args.max_depth,
        "max_pages": args.max_pages,
        "recrawl_after": args.recrawl_after.map(format_duration),
    });
    let begun: AcceptedCrawl = client.post(&client.url(["api", "crawls"]), &body).await?;
    let queue = crawler_queue();
    let shown: Queue = client.get(&client.url(["api", "queues", queue.as_str()])).await?;
    if shown.paused {
        warn(&format!("queue `{queue}` is paused: pages stay in it until `crawlway queues resume {queue}`"));
    }
    let url = client.url(["api", "crawls", &begun.name]);
    let mut progress = Progress::new(args.progress_mode(output), "indexed");
    let mut unreachable_since = None;
    let (crawl, followed) = loop {
        let crawl: Option<CrawlView> = match client.get_optional(&url).await {
            Ok(crawl) => crawl,
            // The gateway may be restarting.
            Err(error) if !stop.is_requested() && is_temporary(&error) => {
                let since = *unreachable_since.get_or_insert_with(Instant::now);
                if since.elapsed() < GATEWAY_TIMEOUT {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                return Err(error.context(continues(&begun.name)));
            }
            Err(error) => return Err(error.context(continues(&begun.name))),
        };
        unreachable_since = None;
        let Some(crawl) = crawl else { bail!("crawl {} was deleted meanwhile", begun.name) };
        let waits_for = crawl.waits_for.as_deref();
        progress.show(&crawl.counts, crawl.counts.in_flight, crawl.to_be_indexed.unwrap_or(0), waits_for);
        if crawl.state.has_ended() && !crawl.reading_sitemaps && crawl.to_be_indexed.unwrap_or(0) == 0 {
            break (crawl, true);
        }
        if stop.is_requested() {
            break (crawl, false);
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = stop.requested() => {}
        }
    };
    progress.end();
    let shown: Queue = client.get(&client.url(["api", "queues", queue.as_str()])).await?;
    let increase = |outcome: &str| increase(&crawl.counts.outcomes, &begun.outcomes, outcome);
    let (indexed, skipped) = (increase("published"), increase("seen"));
    let ended = matches!(crawl.state, CrawlState::Finished | CrawlState::Limited);
    let (complete, name) = (followed && ended, crawl.name.clone());
    let report = CrawlReport {
        crawl: crawl.name,
        state: crawl.state,
        new: begun.new,
        added: begun.added,
        again: begun.again,
        recent: begun.recent,
        skipped,
        joined_hosts: crawl.definition.map(|definition| definition.joined_hosts).unwrap_or_default(),
        failed_seeds: crawl.failed_seeds,
        seconds: seconds(began.elapsed()),
        // Pages in a paused queue are not expected to be indexed soon.
        indexed: indexed.saturating_sub(crawl.to_be_indexed.unwrap_or(0)).saturating_sub(if shown.paused {
            shown.ready
        } else {
            0
        }),
        written: 0,
        counts: crawl.counts,
        not_indexed: shown.dead,
        out: None,
        was_not_indexed: false,
        sitemaps_unread: false,
        how_to_continue: format!(
            "the crawl continues in the gateway; the same command follows it, `crawlway crawl pause {name}` pauses it"
        ),
    };
    if !followed && output.is_json() {
        warn(&report.how_to_continue);
    }
    report.finish(complete, output)
}

/// Whether the gateway is unreachable or starting.
fn is_temporary(error: &anyhow::Error) -> bool {
    problem_of(error).is_none_or(|problem| problem.status() == 503)
}

fn continues(name: &str) -> String {
    format!(
        "crawl {name} was started; it continues as soon as its gateway runs, and the same command follows it"
    )
}

/// Refuses flags for settings that are the gateway's, and for files of this process.
fn refuse_local_flags(args: &CrawlArgs, client: &Client) -> anyhow::Result<()> {
    let flags = [
        ("--allow", "fetch.allow", !args.allow.is_empty()),
        ("--no-robots", "", args.no_robots),
        ("--per-host-concurrency", "fetch.per_host_concurrency", args.per_host_concurrency.is_some()),
        ("--min-delay", "fetch.min_delay", args.min_delay.is_some()),
        ("--out", "", args.out.is_some()),
    ];
    let given: Vec<_> = flags.into_iter().filter(|(_, _, given)| *given).collect();
    let Some((flag, setting, _)) = given.first() else { return Ok(()) };
    let instead = if setting.is_empty() {
        "stop the gateway first, or use another data directory with --data".to_owned()
    } else {
        format!("set `{setting}` where the gateway runs, or stop the gateway first")
    };
    bail!(UsageError(format!(
        "{flag} does not apply to a crawl in the gateway at {}; {instead}",
        client.base_url()
    )))
}
