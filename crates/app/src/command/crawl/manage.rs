//! `crawlway crawl list|show|pause|resume|cancel|delete`: looking after crawls.

use crate::{
    ask::{Crawls, Place},
    command::{counted, must_be_meant},
    config::Config,
    output::{Cell, Column, Output, Table, Tone, can_ask, one_line},
    time::ago_text,
};
use clap::{Args, Subcommand};
use crawlway_broker::Timestamp;
use crawlway_gateway::shape::{CrawlUrls, CrawlView, FrontierEntry};
use crawlway_store::frontier::{CrawlState, EntryState};
use std::io;

const AFTER_HELP: &str = "\
JSON: the crawl, as `crawlway crawl show` has it.

Exit codes: 0 it was done; 1 there is no such crawl, it has ended, or it failed; 2 the command line or
a setting is wrong.";

#[derive(Debug, Subcommand)]
pub(super) enum CrawlCommand {
    /// List the crawls, the newest first
    #[command(after_help = "\
JSON:
  {\"crawls\": [crawl…], \"next\": null | NAME}, crawls as `crawlway crawl show` has them.

Exit codes: 0 it was done, also if there are none; 1 it failed; 2 the command line or a setting is
wrong.")]
    List {
        /// At most so many, up to 500
        #[arg(long, value_name = "N", default_value = "50")]
        limit: usize,
        /// Only those older than this crawl, to go on where the last list ended
        #[arg(long, value_name = "NAME")]
        after: Option<String>,
    },
    /// Show how far a crawl is, or what became of its URLs
    #[command(after_help = "\
Examples:
  crawlway crawl show example.org
  crawlway crawl show example.org --outcome dead        the URLs that were given up, and why
  crawlway crawl show example.org --urls --json | jq -r '.urls[].url'

An outcome is one that `crawl show` counts, such as `published` or `gone`, or one of `waiting`,
`in_flight`, `done` and `dead`.

JSON:
  {\"name\", \"state\", \"definition\", \"created_at\", \"ended_at\", \"counts\": {\"waiting\", \"in_flight\", \"done\",
    \"dead\", \"fetched\", \"outcomes\": {WORD: n}, \"left_out\": {WORD: n}}, \"left\", \"rate_per_second\",
    \"eta_seconds\", \"interrupted\", \"to_be_indexed\", \"waits_for\", \"reading_sitemaps\"}
  with --urls: {\"urls\": [{\"crawl\", \"item\", \"url\", \"host\", \"depth\", \"found_on\", \"added_at\", \"state\",
    \"due\", \"crawled_at\", \"attempts\", \"outcome\", \"canonical\"}], \"next\": null | cursor}

Exit codes: 0 it was done; 1 there is no such crawl, or it failed; 2 the command line or a setting is
wrong.")]
    Show(ShowArgs),
    /// Stop taking up URLs of a crawl; what is in flight is finished
    #[command(after_help = AFTER_HELP)]
    Pause(Named),
    /// Let a crawl that was paused or cancelled run again
    #[command(after_help = AFTER_HELP)]
    Resume(Named),
    /// End a crawl before it is done; what is in flight is finished
    #[command(after_help = AFTER_HELP)]
    Cancel(Named),
    /// Delete a crawl and all that is known of its URLs; its pages stay in the index
    #[command(after_help = "\
A crawl that is started under the same name is a new one.

JSON:
  {\"deleted\": NAME}

Exit codes: 0 it was done; 1 there is no such crawl, or it failed; 2 the command line or a setting is
wrong, or --yes is missing and nobody can be asked.")]
    Delete {
        #[command(flatten)]
        crawl: Named,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// A crawl.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// The crawl, as `crawl list` names it
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    crawl: Named,
    /// List its URLs
    #[arg(long)]
    urls: bool,
    /// List its URLs of this outcome
    #[arg(long, value_name = "WORD")]
    outcome: Option<String>,
    /// List at most so many URLs, up to 1000
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,
    /// Go on after the list that ended with this
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

pub(super) async fn run(command: CrawlCommand, config: &Config, output: &mut Output) -> anyhow::Result<()> {
    if let CrawlCommand::Delete { crawl, yes: false } = &command
        && !can_ask()
    {
        // Refused before anything is opened.
        return must_be_meant(false, || crawl.name.clone());
    }
    let exclusive = matches!(command, CrawlCommand::Delete { .. });
    let crawls = Crawls::open(Place::of(config)?, exclusive).await?;
    let done = answer(command, &crawls, output).await;
    let closed = crawls.close().await;
    done?;
    closed
}

async fn answer(command: CrawlCommand, crawls: &Crawls, output: &mut Output) -> anyhow::Result<()> {
    match command {
        CrawlCommand::List { limit, after } => list(crawls, limit, after.as_deref(), output).await,
        CrawlCommand::Show(args) if args.urls || args.outcome.is_some() => urls(crawls, &args, output).await,
        CrawlCommand::Show(ShowArgs { crawl, .. }) => {
            let crawl = crawls.one(&crawl.name).await?;
            if output.is_json() { Ok(output.json(&crawl)?) } else { Ok(tell(&crawl, output)?) }
        }
        CrawlCommand::Pause(crawl) => set(crawls, &crawl.name, CrawlState::Paused, output).await,
        CrawlCommand::Resume(crawl) => set(crawls, &crawl.name, CrawlState::Running, output).await,
        CrawlCommand::Cancel(crawl) => set(crawls, &crawl.name, CrawlState::Cancelled, output).await,
        CrawlCommand::Delete { crawl: Named { name }, yes } => {
            let crawl = crawls.one(&name).await?;
            let known = counted(crawl.counts.done + crawl.counts.dead + crawl.left, "URL", "URLs");
            must_be_meant(yes, || {
                format!("Delete crawl {} with what is known of {known}?", one_line(&name))
            })?;
            let deleted = crawls.delete(&name).await?;
            if output.is_json() {
                return Ok(output.json(&deleted)?);
            }
            Ok(output.line(&format!("crawl {} is deleted; its pages stay in the index", deleted.deleted))?)
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
        Column::left("begun"),
        Column::right("fetched"),
        Column::right("waiting"),
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
        output.line(&format!("there are more: crawlway crawl list --after {next}"))?;
    }
    Ok(())
}

/// Its state, in a word. What runs without a worker was interrupted.
fn state(crawl: &CrawlView) -> &str {
    if crawl.interrupted { "interrupted" } else { crawl.state.as_str() }
}

/// The first seed, and how many more there are.
fn seeds(crawl: &CrawlView) -> Option<String> {
    let seeds = &crawl.definition.as_ref()?.seeds;
    let first = seeds.first()?;
    Some(if seeds.len() == 1 { first.clone() } else { format!("{first} and {} more", seeds.len() - 1) })
}

fn tell(crawl: &CrawlView, output: &mut Output) -> io::Result<()> {
    let ended = crawl.ended_at.as_ref().map(|at| format!(", ended {at}")).unwrap_or_default();
    output.line(&format!("crawl {} is {}: begun {}{ended}", crawl.name, state(crawl), crawl.created_at))?;
    if crawl.interrupted {
        output.line("no process works on it: `crawlway up`, or its own command, goes on with it")?;
    }
    if let Some(seeds) = seeds(crawl) {
        output.line(&format!("begins at {}", one_line(&seeds)))?;
    }
    let mut table = Table::new([Column::left("outcome"), Column::right("times")]);
    for (outcome, count) in &crawl.counts.outcomes {
        table.row([Cell::new(outcome.as_str()), Cell::number(*count)]);
    }
    let states = [
        ("dead", crawl.counts.dead),
        ("waiting", crawl.counts.waiting),
        ("in_flight", crawl.counts.in_flight),
    ];
    for (state, count) in states.into_iter().filter(|(_, count)| *count > 0) {
        let tone = if state == "dead" { Tone::Alarm } else { Tone::Plain };
        table.row([Cell::new(state), Cell::number(count).tone(tone)]);
    }
    for (reason, count) in &crawl.counts.left_out {
        table.row([Cell::new(format!("left out: {reason}")), Cell::number(*count)]);
    }
    output.table(&table)?;
    if let Some(rate) = crawl.rate_per_second {
        output.line(&format!("{rate} URLs a second"))?;
    }
    if let Some(waits_for) = &crawl.waits_for {
        output.line(waits_for)?;
    }
    output.line(&format!("its URLs by outcome: crawlway crawl show {} --outcome WORD", crawl.name))
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
        return Ok(output.line(&format!("no such URLs; there may be some that are {}", words.join(", ")))?);
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
        output.line(&format!("there are more: repeat it with --after {next}"))?;
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

async fn set(crawls: &Crawls, name: &str, state: CrawlState, output: &mut Output) -> anyhow::Result<()> {
    let crawl = crawls.set_state(name, state).await?;
    if output.is_json() {
        return Ok(output.json(&crawl)?);
    }
    output.line(&format!("crawl {} is {}", crawl.name, crawl.state))?;
    if crawl.state == CrawlState::Running && crawls.is_here() {
        output.line("no gateway runs here: `crawlway up`, or its own command, goes on with it")?;
    }
    Ok(())
}
