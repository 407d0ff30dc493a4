//! `crawlway crawl list|show|pause|resume|cancel|delete`.

use super::counts;
use crate::{
    command::{counted, require_confirmation},
    config::Config,
    failure::UsageError,
    output::{Cell, Column, Output, Table, Tone, can_ask, one_line},
    service::{Crawls, Target},
    time::ago_text,
};
use clap::{Args, Subcommand};
use crawlway_broker::Timestamp;
use crawlway_gateway::dto::{CrawlUrls, CrawlView, FrontierEntry};
use crawlway_store::{
    CrawlId,
    frontier::{CrawlState, EntryState},
};
use std::io;

/// Help of a subcommand that changes the state of a crawl.
macro_rules! state_help {
    ($verb:literal) => {
        concat!(
            "Example:\n  crawlway crawl ",
            $verb,
            " example.org\n\n",
            "JSON: the crawl, as in `crawlway crawl show`.\n\n",
            "Exit codes: 0 success; 1 failure, no such crawl, or the crawl has ended; 2 invalid command line or setting."
        )
    };
}

#[derive(Debug, Subcommand)]
pub(super) enum CrawlCommand {
    /// List the crawls, newest first
    #[command(after_help = "\
Example:
  crawlway crawl list --limit 10

JSON:
  {\"crawls\": [crawl…], \"next\": null | NAME}, crawls as in `crawlway crawl show`.

Exit codes: 0 success, also for an empty list; 1 failure; 2 invalid command line or setting.")]
    List {
        /// Maximum number of crawls, up to 500
        #[arg(long, value_name = "N", default_value = "50")]
        limit: usize,
        /// Pagination cursor: only crawls older than this one
        #[arg(long, value_name = "NAME")]
        after: Option<String>,
    },
    /// Show the progress of a crawl, or its URLs by outcome
    #[command(after_help = "\
Examples:
  crawlway crawl show example.org
  crawlway crawl show example.org --outcome dead        URLs that became dead letters
  crawlway crawl show example.org --urls --json | jq -r '.urls[].url'

An outcome is one that `crawl show` counts, such as `published` or `gone`, or a state: `waiting`,
`in_flight`, `done` or `dead`. `outcomes` counts results: a URL that is crawled again has one each time.
The states count URLs.

JSON:
  {\"name\", \"state\", \"definition\", \"created_at\", \"ended_at\", \"counts\": {\"waiting\", \"in_flight\",
    \"done\", \"dead\", \"fetched\", \"outcomes\": {WORD: n}, \"left_out\": {WORD: n}}, \"left\",
    \"rate_per_second\", \"eta_seconds\", \"interrupted\", \"to_be_indexed\", \"waits_for\",
    \"reading_sitemaps\"}
  with --urls: {\"urls\": [{\"crawl\", \"item\", \"url\", \"host\", \"depth\", \"found_on\", \"added_at\", \"state\",
    \"due\", \"crawled_at\", \"attempts\", \"outcome\", \"canonical\"}], \"next\": null | cursor}

Exit codes: 0 success; 1 failure, or no such crawl; 2 invalid command line or setting.")]
    Show(ShowArgs),
    /// Pause a crawl; requests in flight finish
    #[command(after_help = state_help!("pause"))]
    Pause(CrawlName),
    /// Resume a paused or cancelled crawl
    #[command(after_help = state_help!("resume"))]
    Resume(CrawlName),
    /// Cancel a crawl; requests in flight finish
    #[command(after_help = state_help!("cancel"))]
    Cancel(CrawlName),
    /// Delete a crawl and its frontier; its pages stay in the index
    #[command(after_help = "\
Example:
  crawlway crawl delete example.org --yes

A later crawl of the same name starts from scratch.

JSON:
  {\"deleted\": NAME}

Exit codes: 0 success; 1 failure, or no such crawl; 2 invalid command line or setting, or --yes is
missing without a terminal.")]
    Delete {
        #[command(flatten)]
        crawl: CrawlName,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

impl CrawlCommand {
    /// Name of the crawl that the command is about.
    fn name(&self) -> Option<&str> {
        match self {
            Self::List { after, .. } => after.as_deref(),
            Self::Show(ShowArgs { crawl, .. })
            | Self::Pause(crawl)
            | Self::Resume(crawl)
            | Self::Cancel(crawl)
            | Self::Delete { crawl, .. } => Some(&crawl.name),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct CrawlName {
    /// Name of the crawl, as in `crawl list`
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    crawl: CrawlName,
    /// List the URLs
    #[arg(long)]
    urls: bool,
    /// List the URLs with this outcome
    #[arg(long, value_name = "WORD")]
    outcome: Option<String>,
    /// Maximum number of URLs, up to 1000
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,
    /// Pagination cursor of the previous list
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

pub(super) async fn run(command: CrawlCommand, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    if let CrawlCommand::Delete { crawl, yes: false } = &command
        && !can_ask()
    {
        // Reported before any store is opened.
        return require_confirmation(false, || crawl.name.clone());
    }
    if let Some(name) = command.name() {
        // Reported before any store is opened.
        CrawlId::new(name).map_err(|error| UsageError(error.to_string()))?;
    }
    let exclusive = matches!(command, CrawlCommand::Delete { .. });
    let crawls = Crawls::open(Target::of(config)?, exclusive).await?;
    let done = run_on(command, &crawls, output).await;
    let closed = crawls.close().await;
    done?;
    closed
}

async fn run_on(command: CrawlCommand, crawls: &Crawls, output: &mut Output) -> anyhow::Result<()> {
    match command {
        CrawlCommand::List { limit, after } => list(crawls, limit, after.as_deref(), output).await,
        CrawlCommand::Show(args) if args.urls || args.outcome.is_some() => urls(crawls, &args, output).await,
        CrawlCommand::Show(ShowArgs { crawl, .. }) => {
            let crawl = crawls.one(&crawl.name).await?;
            if output.is_json() { Ok(output.json(&crawl)?) } else { Ok(print(&crawl, output)?) }
        }
        CrawlCommand::Pause(crawl) => set_state(crawls, &crawl.name, CrawlState::Paused, output).await,
        CrawlCommand::Resume(crawl) => set_state(crawls, &crawl.name, CrawlState::Running, output).await,
        CrawlCommand::Cancel(crawl) => set_state(crawls, &crawl.name, CrawlState::Cancelled, output).await,
        CrawlCommand::Delete { crawl: CrawlName { name }, yes } => {
            let crawl = crawls.one(&name).await?;
            let urls = counted(crawl.counts.done + crawl.counts.dead + crawl.left, "URL", "URLs");
            require_confirmation(yes, || {
                format!("Delete crawl {} with {urls} in its frontier?", one_line(&name))
            })?;
            let deleted = crawls.delete(&name).await?;
            if output.is_json() {
                return Ok(output.json(&deleted)?);
            }
            Ok(output.line(&format!("crawl {} was deleted; its pages stay in the index", deleted.deleted))?)
        }
    }
}

async fn list(crawls: &Crawls, limit: usize, after: Option<&str>, output: &mut Output) -> anyhow::Result<()> {
    let listed = crawls.list(after, limit).await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    if listed.crawls.is_empty() {
        return Ok(output.line("no crawls")?);
    }
    let mut table = Table::new([
        Column::left("crawl"),
        Column::left("state"),
        Column::left("started"),
        Column::right("fetched"),
        Column::right("pending"),
        Column::right("dead"),
        Column::left("seeds"),
    ]);
    let now = Timestamp::now();
    for crawl in &listed.crawls {
        table.row([
            Cell::new(crawl.name.as_str()),
            Cell::new(state(crawl)),
            Cell::new(ago_text(&crawl.created_at, now)),
            Cell::number(crawl.counts.fetched),
            Cell::number(crawl.counts.waiting + crawl.counts.in_flight),
            Cell::number(crawl.counts.dead).tone(if crawl.counts.dead > 0 {
                Tone::Alarm
            } else {
                Tone::Faint
            }),
            seeds(crawl).map_or_else(Cell::none, |seeds| Cell::cut(&seeds, 80)),
        ]);
    }
    output.table(&table)?;
    if let Some(next) = &listed.next {
        output.line(&format!("more: crawlway crawl list --after {next}"))?;
    }
    Ok(())
}

/// State for people: a running crawl without a worker is interrupted.
fn state(crawl: &CrawlView) -> &str {
    if crawl.interrupted { "interrupted" } else { crawl.state.as_str() }
}

/// First seed, and the number of the others.
fn seeds(crawl: &CrawlView) -> Option<String> {
    let seeds = &crawl.definition.as_ref()?.seeds;
    let first = seeds.first()?;
    Some(if seeds.len() == 1 { first.clone() } else { format!("{first} and {} more", seeds.len() - 1) })
}

fn print(crawl: &CrawlView, output: &mut Output) -> io::Result<()> {
    let ended = crawl.ended_at.as_ref().map(|at| format!(", ended {at}")).unwrap_or_default();
    output.line(&format!("crawl {} is {}: started {}{ended}", crawl.name, state(crawl), crawl.created_at))?;
    if crawl.interrupted {
        output.line("no worker runs; `crawlway up`, or the same `crawlway crawl` command, continues it")?;
    }
    if let Some(seeds) = seeds(crawl) {
        output.line(&format!("seeds: {}", one_line(&seeds)))?;
    }
    counts::print(&crawl.counts, output)?;
    if let Some(rate) = crawl.rate_per_second {
        output.line(&format!("{rate} URLs per second"))?;
    }
    if let Some(waits_for) = &crawl.waits_for {
        output.line(waits_for)?;
    }
    output.line(&format!("URLs by outcome: crawlway crawl show {} --outcome WORD", crawl.name))
}

async fn urls(crawls: &Crawls, args: &ShowArgs, output: &mut Output) -> anyhow::Result<()> {
    let name = &args.crawl.name;
    let listed = crawls.urls(name, args.outcome.as_deref(), args.after.as_deref(), args.limit).await?;
    if output.is_json() {
        return Ok(output.json(&listed)?);
    }
    let CrawlUrls { urls, next } = listed;
    if urls.is_empty() {
        let crawl = crawls.one(name).await?;
        let words = crawl.counts.outcomes.keys().map(String::as_str);
        let words: Vec<&str> = words.chain(["waiting", "in_flight", "done", "dead"]).collect();
        return Ok(output.line(&format!("no such URLs; possible outcomes: {}", words.join(", ")))?);
    }
    let mut table = Table::new([
        Column::left("state"),
        Column::right("depth"),
        Column::right("attempts"),
        Column::left("url"),
        Column::left("outcome"),
    ]);
    for entry in &urls {
        table.row(row(entry));
    }
    output.table(&table)?;
    if let Some(next) = next {
        output.line(&format!("more: repeat with --after {next}"))?;
    }
    Ok(())
}

fn row(entry: &FrontierEntry) -> [Cell; 5] {
    let (state, tone) = match entry.state {
        EntryState::Waiting => ("waiting", Tone::Plain),
        EntryState::InFlight => ("in_flight", Tone::Plain),
        EntryState::Done => ("done", Tone::Plain),
        EntryState::Dead => ("dead", Tone::Alarm),
    };
    [
        Cell::new(state).tone(tone),
        Cell::number(entry.depth.into()),
        Cell::number(entry.attempts.into()),
        Cell::new(entry.url.as_str()),
        entry.outcome.as_deref().map_or_else(Cell::none, Cell::new),
    ]
}

async fn set_state(
    crawls: &Crawls,
    name: &str,
    state: CrawlState,
    output: &mut Output,
) -> anyhow::Result<()> {
    let crawl = crawls.set_state(name, state).await?;
    if output.is_json() {
        return Ok(output.json(&crawl)?);
    }
    output.line(&format!("crawl {} is {}", crawl.name, crawl.state))?;
    if crawl.state == CrawlState::Running && crawls.is_local() {
        output.line("no gateway runs; `crawlway up`, or the same `crawlway crawl` command, continues it")?;
    }
    Ok(())
}
