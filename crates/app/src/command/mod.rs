//! The commands. This file has the table of them; each has a file of its own.

mod completions;
mod config;
mod crawl;
mod dead;
mod demo;
mod export;
mod fetch;
mod given;
mod health;
mod index;
mod page;
mod queues;
mod replay;
mod robots;
mod search;
mod trail;
mod up;
mod url;

pub(crate) use given::{Given, refuse_bad_lines};

use crate::{
    config::{Config, Sources, load},
    failure::UsageError,
    log,
    output::{self, Output},
};
use anyhow::bail;
use clap::{Args, Parser, Subcommand};
use std::{env, path::PathBuf};

/// Turns URLs into stored, searchable, deduplicated records through durable queues.
#[derive(Debug, Parser)]
#[command(name = "crawlway", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    shared: SharedArgs,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  crawlway demo                                   see it at work on a small web of its own
  crawlway crawl https://example.org/             crawl a site and make it searchable
  crawlway crawl https://example.org/ --out FILE  crawl it into a file of JSON lines instead
  crawlway crawl list                             the crawls and how far they are
  crawlway up                                     the same as a service, with an HTTP API
  crawlway url add https://example.org/           keep its headers, cookies and source
  crawlway search bicycle repair                  find pages, the best first
  crawlway page https://example.org/              a stored page, as people read it
  crawlway export --host example.org              stored pages as JSON lines
  crawlway trail https://example.org/page         what happened to a page, step by step
  crawlway fetch https://example.org/             what a page becomes, and how it was fetched
  crawlway config show                            every setting, and where its value comes from
  crawlway queues --data /var/lib/crawlway        what waits, is in flight, delayed and dead
  crawlway dead list crawler_queue --since 2h     what was given up in the last two hours, and why
  crawlway dead replay crawler_queue --all        give all of it another try
  crawlway queues --json | jq '.queues[].ready'   the same for programs

Settings come from `crawlway.toml` in the working directory or the file named by --config or
CRAWLWAY_CONFIG, then from CRAWLWAY_* variables, then from flags; later ones win.

While `crawlway up` runs on the data directory, crawl, url, search, page, export, index, trail, queues
and dead ask it and say the same as on the directory itself; --gateway asks one elsewhere. With --json,
errors and warnings are lines of JSON on standard error: {\"error\", \"causes\"} and {\"warning\"}. Colours
are for terminals only, and for none if NO_COLOR is set.

Exit codes:
  0  it was done
  1  it failed, or what was asked for was not found
  2  the command line or a setting is wrong; nothing was done
  3  it was asked to stop before the end; the same command goes on

`crawlway help COMMAND` tells more about a command.";

/// The table of commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Crawl a small web of the demo's own, and show what can be done with it
    Demo(demo::DemoArgs),
    /// Crawl from some URLs and make the pages searchable
    Crawl(crawl::CrawlArgs),
    /// Run the gateway and the workers until asked to end
    Up(up::UpArgs),
    /// Say whether the process that listens here can do its work
    Health(health::HealthArgs),
    /// Ask for URLs, and show the headers, cookies and sources that came back
    Url(url::UrlArgs),
    /// Find pages by what they say
    Search(search::SearchArgs),
    /// Remove pages from the index
    Index(index::IndexArgs),
    /// Show a stored page
    Page(page::PageArgs),
    /// Write stored pages as JSON lines
    Export(export::ExportArgs),
    /// Show what happened to an item, by its id or its URL
    Trail(trail::TrailArgs),
    /// Fetch a page politely and show what it becomes
    Fetch(fetch::FetchArgs),
    /// Say what a robots.txt allows
    Robots(robots::RobotsArgs),
    /// Show the queues; pause, resume or purge one
    Queues(queues::QueuesArgs),
    /// List, read, replay or drop dead letters: what was given up, and why
    Dead(dead::DeadArgs),
    /// Run a stage again from what is stored, without fetching
    Replay(replay::ReplayArgs),
    /// Check the settings, or show them with where each comes from
    Config(config::ConfigArgs),
    /// Print what a shell needs to complete command lines
    Completions(completions::CompletionsArgs),
}

/// What every command takes.
#[derive(Debug, Args)]
struct SharedArgs {
    /// Read settings from this file instead of `crawlway.toml`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Shared options")]
    config: Option<PathBuf>,
    /// Use this data directory, whatever `data_dir` says
    #[arg(long, global = true, value_name = "DIR", help_heading = "Shared options")]
    data: Option<PathBuf>,
    /// Ask this gateway, such as http://127.0.0.1:8081, whatever `gateway.url` says
    #[arg(long, global = true, value_name = "URL", help_heading = "Shared options")]
    gateway: Option<String>,
    /// Write JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = "Shared options")]
    json: bool,
    /// Log every request and every outcome of a stage on standard error, whatever `log.level` says; twice to debug
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Shared options")]
    verbose: u8,
}

/// Runs what the command line asks for.
pub(crate) async fn run(line: CommandLine) -> anyhow::Result<()> {
    let SharedArgs { config, data, gateway, json, verbose } = line.shared;
    let sources = Sources {
        config_flag: config,
        data_flag: data,
        gateway_flag: gateway,
        variables: env::vars_os().collect(),
        working_directory: true,
    };
    let mut output = Output::new(json);
    let settings = || -> anyhow::Result<Config> {
        let config = load(&sources)?.config;
        log::start(config.log, verbose);
        Ok(config)
    };
    match line.command {
        Command::Demo(args) => demo::run(args, sources.data_flag.clone(), settings()?, &mut output).await?,
        Command::Crawl(args) => crawl::run(args, settings()?, &mut output).await?,
        Command::Up(args) => up::run(args, settings()?, &mut output).await?,
        Command::Health(args) => health::run(args, &settings()?, &mut output).await?,
        Command::Url(args) => url::run(args, &settings()?, &mut output).await?,
        Command::Search(args) => search::run(args, &settings()?, &mut output).await?,
        Command::Index(args) => index::run(args, &settings()?, &mut output).await?,
        Command::Page(args) => page::run(args, &settings()?, &mut output).await?,
        Command::Export(args) => export::run(args, &settings()?, &mut output).await?,
        Command::Trail(args) => trail::run(args, &settings()?, &mut output).await?,
        Command::Replay(args) => replay::run(args, &settings()?, &mut output).await?,
        Command::Fetch(args) => fetch::run(args, settings, &mut output).await?,
        Command::Robots(args) => robots::run(&args, settings, &mut output).await?,
        Command::Queues(args) => queues::run(args, &settings()?, &mut output).await?,
        Command::Dead(args) => dead::run(args, &settings()?, &mut output).await?,
        Command::Config(args) => config::run(args, &sources, &mut output)?,
        Command::Completions(args) => completions::run(&args, &mut output)?,
    }
    output.flush()?;
    Ok(())
}

/// Makes sure that what cannot be undone is meant: by `--yes`, or by asking who sits there.
fn must_be_meant(yes: bool, question: impl FnOnce() -> String) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !output::can_ask() {
        bail!(UsageError("this cannot be undone; repeat it with --yes if it is meant".to_owned()));
    }
    if output::confirm(&question())? {
        return Ok(());
    }
    bail!("nothing was done, since the answer was not yes")
}

/// `1 message`, `2 messages`
fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}
