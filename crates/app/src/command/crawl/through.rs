//! A crawl by a gateway, which this process starts and follows.

use super::{
    CrawlArgs,
    here::since,
    progress::Progress,
    told::{Crawled, seconds},
};
use crate::{
    ask::{Client, Refused},
    failure::UsageError,
    output::{self, Output, warn},
    quantity::exact_duration,
    worker::stop_on_signals,
};
use anyhow::{Context, bail};
use crawlway_flows::search::crawler_queue;
use crawlway_gateway::shape::{Accepted, CrawlView, Queue};
use crawlway_store::frontier::CrawlState;
use serde_json::json;
use std::time::{Duration, Instant};

/// How often the gateway is asked how far the crawl is.
const LOOK: Duration = Duration::from_millis(250);

pub(super) async fn run(args: CrawlArgs, client: &Client, output: &mut Output) -> anyhow::Result<()> {
    refuse_what_it_decides(&args, client)?;
    let stop = stop_on_signals()?;
    let began = Instant::now();
    let asked = json!({
        "name": args.name,
        "fresh": args.fresh,
        "seeds": args.seeds,
        "sitemaps": args.sitemaps,
        "hosts": args.hosts,
        "include": args.include,
        "exclude": args.exclude,
        "max_depth": args.max_depth,
        "max_pages": args.max_pages,
        "recrawl_after": args.recrawl_after.map(exact_duration),
    });
    let begun: Accepted = client.post(&client.address(["api", "crawls"]), &asked).await?;
    let queue = crawler_queue();
    let shown: Queue = client.get(&client.address(["api", "queues", queue.as_str()])).await?;
    if shown.paused {
        warn(&format!("queue `{queue}` is paused: pages stay in it until `crawlway queues resume {queue}`"));
    }
    let address = client.address(["api", "crawls", &begun.name]);
    let mut progress = Progress::new(args.watch(output), "indexed");
    let (crawl, followed) = loop {
        let crawl: CrawlView = match client.get(&address).await {
            Err(error) if is_missing(&error) => bail!("crawl {} was deleted meanwhile", begun.name),
            answer => answer.with_context(|| {
                format!("crawl {} was begun, and goes on whenever the gateway runs", begun.name)
            })?,
        };
        let waits_for = crawl.waits_for.as_deref();
        progress.show(&crawl.counts, crawl.counts.in_flight, crawl.to_be_indexed.unwrap_or(0), waits_for);
        if crawl.state.has_ended() && !crawl.reading_sitemaps && crawl.to_be_indexed.unwrap_or(0) == 0 {
            break (crawl, true);
        }
        if stop.is_requested() {
            break (crawl, false);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = stop.requested() => {}
        }
    };
    progress.end();
    let shown: Queue = client.get(&client.address(["api", "queues", queue.as_str()])).await?;
    let since = |outcome: &str| since(&crawl.counts.outcomes, &begun.outcomes, outcome);
    let (indexed, skipped) = (since("published"), since("seen"));
    let ended = matches!(crawl.state, CrawlState::Finished | CrawlState::Limited);
    let (finished, name) = (followed && ended, crawl.name.clone());
    let told = Crawled {
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
        indexed: indexed.saturating_sub(crawl.to_be_indexed.unwrap_or(0)),
        written: 0,
        counts: crawl.counts,
        not_indexed: shown.dead,
        out: None,
        was_not_indexed: false,
        sitemaps_unread: false,
        rest: format!(
            "it goes on in the gateway; the same command follows it, and this pauses it: crawlway crawl pause {name}"
        ),
    };
    if !followed && output.is_json() {
        output::warn(&told.rest);
    }
    told.end(finished, output)
}

/// Whether the gateway has answered that there is no such thing.
fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.status() == 404)
}

/// Another process's settings decide on which terms it fetches, and its files are its own.
fn refuse_what_it_decides(args: &CrawlArgs, client: &Client) -> anyhow::Result<()> {
    let decided = [
        ("--allow", "fetch.allow", !args.allow.is_empty()),
        ("--no-robots", "", args.no_robots),
        ("--in-flight", "fetch.in_flight", args.in_flight.is_some()),
        ("--gap", "fetch.gap", args.gap.is_some()),
        ("--out", "", args.out.is_some()),
    ];
    let given: Vec<_> = decided.into_iter().filter(|(_, _, given)| *given).collect();
    let Some((flag, setting, _)) = given.first() else { return Ok(()) };
    let instead = if setting.is_empty() {
        "stop the gateway first, or crawl into another data directory with --data".to_owned()
    } else {
        format!("leave it out and set `{setting}` where the gateway runs, or stop the gateway first")
    };
    bail!(UsageError(format!(
        "{flag} is not for the gateway at {}, which would crawl; {instead}",
        client.shown()
    )))
}
