//! Commands of the program: their list, and one file or folder for each.

mod blob;
mod completions;
mod config;
mod crawl;
mod dead;
mod demo;
mod export;
mod fetch;
mod health;
mod index;
mod page;
mod queues;
mod replay;
mod request;
mod robots;
mod search;
mod token;
mod trail;
mod up;
mod url;
mod url_args;

pub(crate) use demo::{InventoryDemo, RequestDemo, Shell};
pub(crate) use url_args::{UrlArg, refuse_invalid_lines};

use crate::{
    config::{Config, Sources, load},
    failure::UsageError,
    log,
    output::{self, Output},
};
use anyhow::{bail, ensure};
use clap::{Args, Parser, Subcommand};
use crawlway_gateway::dto::UnavailableQueue;
use std::{
    env,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

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
  crawlway demo                                   crawl a small web that the demo serves itself
  crawlway crawl https://example.org/             crawl a site and make it searchable
  crawlway crawl https://example.org/ --out FILE  write the pages to a file of JSON lines
  crawlway crawl list                             crawls and their progress
  crawlway up                                     run as a service with an HTTP API
  crawlway url add https://example.org/           store its headers, cookies and source
  crawlway request add https://example.org/ --wait  the page, fetched by a worker
  crawlway search bicycle repair                  full-text search
  crawlway page https://example.org/              show a stored page
  crawlway export --host example.org              stored pages as JSON lines
  crawlway trail https://example.org/page         event history of a page
  crawlway blob url raw/acme/42.html              link to a raw page, valid for an hour
  crawlway fetch https://example.org/             fetch one page and show what is extracted
  crawlway config show                            every setting with its source
  crawlway queues --data /var/lib/crawlway        depth of the queues
  crawlway dead list crawler_queue --since 2h     dead letters of the last two hours
  crawlway dead replay crawler_queue --all        put all of them back into the queue
  crawlway token add ann@example.org              access token for a user of the API
  crawlway queues --json | jq '.queues[].ready'   output as JSON

Settings come from `crawlway.toml` in the working directory or the file named by --config or
CRAWLWAY_CONFIG, then from CRAWLWAY_* variables, then from flags; later ones win.

While `crawlway up` runs on the data directory, the commands crawl, url, request, search, page, export,
index, trail, queues, dead and token use its gateway, with the same output; --gateway names another one. With --json,
errors and warnings are JSON lines on standard error: {\"error\", \"causes\"} and {\"warning\"}. Colours are
used on terminals only, and not if NO_COLOR is set.

Exit codes:
  0  success
  1  failure, or not found
  2  invalid command line or setting; nothing was changed
  3  stopped before the end; the same command continues

`crawlway help COMMAND` shows the details of a command.";

/// All commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Crawl a small web that the demo serves itself, and show what to try next
    Demo(demo::DemoArgs),
    /// Crawl from seed URLs and make the pages searchable
    Crawl(crawl::CrawlArgs),
    /// Run the gateway and the workers as a service
    Up(up::UpArgs),
    /// Show the readiness of the process that runs with these settings
    Health(health::HealthArgs),
    /// Submit URLs, and show their headers, cookies and sources
    Url(url::UrlArgs),
    /// Request URLs, and show the answers of the worker
    Request(request::RequestArgs),
    /// Search the pages
    Search(search::SearchArgs),
    /// Remove pages from the search index
    Index(index::IndexArgs),
    /// Show a stored page
    Page(page::PageArgs),
    /// Write stored pages as JSON lines
    Export(export::ExportArgs),
    /// Show the event history of an item, by its id or its URL
    Trail(trail::TrailArgs),
    /// Read raw contents of pages, and make links to them
    Blob(blob::BlobArgs),
    /// Fetch one page and show what the crawler extracts from it
    Fetch(fetch::FetchArgs),
    /// Check URLs against robots.txt
    Robots(robots::RobotsArgs),
    /// Show the queues; pause, resume or purge one
    Queues(queues::QueuesArgs),
    /// List, show, replay or drop dead letters
    Dead(dead::DeadArgs),
    /// Add, list or revoke access tokens of the gateway
    Token(token::TokenArgs),
    /// Run a stage again on the stored pages, without fetching
    Replay(replay::ReplayArgs),
    /// Check the settings, or show each with its source
    Config(config::ConfigArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Flags of every command.
#[derive(Debug, Args)]
struct SharedArgs {
    /// Read settings from this file instead of `crawlway.toml`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Shared options")]
    config: Option<PathBuf>,
    /// Data directory; overrides `data_dir`
    #[arg(long, global = true, value_name = "DIR", help_heading = "Shared options")]
    data: Option<PathBuf>,
    /// Use this gateway, such as http://127.0.0.1:8081; overrides `gateway.url`
    #[arg(long, global = true, value_name = "URL", help_heading = "Shared options")]
    gateway: Option<String>,
    /// Write JSON instead of text
    #[arg(long, global = true, help_heading = "Shared options")]
    json: bool,
    /// Log every request and every outcome of a stage; twice for debug. Overrides a lower `log.level`
    #[arg(long, short, global = true, action = clap::ArgAction::Count, help_heading = "Shared options")]
    verbose: u8,
}

/// Runs the command.
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
    for (name, path) in [("--config", &sources.config_flag), ("--data", &sources.data_flag)] {
        if let Some(path) = path {
            output.repeat_flag(name, &path.display().to_string());
        }
    }
    if let Some(gateway) = &sources.gateway_flag {
        output.repeat_flag("--gateway", gateway);
    }
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
        Command::Request(args) => request::run(args, &settings()?, &mut output).await?,
        Command::Search(args) => search::run(args, &settings()?, &mut output).await?,
        Command::Index(args) => index::run(args, &settings()?, &mut output).await?,
        Command::Page(args) => page::run(args, &settings()?, &mut output).await?,
        Command::Export(args) => export::run(args, &settings()?, &mut output).await?,
        Command::Trail(args) => trail::run(args, &settings()?, &mut output).await?,
        Command::Blob(args) => blob::run(args, &settings()?, &mut output).await?,
        Command::Replay(args) => replay::run(args, &settings()?, &mut output).await?,
        Command::Fetch(args) => fetch::run(args, settings, &mut output).await?,
        Command::Robots(args) => robots::run(&args, settings, &mut output).await?,
        Command::Queues(args) => queues::run(args, &settings()?, &mut output).await?,
        Command::Dead(args) => dead::run(args, &settings()?, &mut output).await?,
        Command::Token(args) => token::run(args, &settings()?, &mut output).await?,
        Command::Config(args) => config::run(args, &sources, &mut output)?,
        Command::Completions(args) => completions::run(&args, &mut output)?,
    }
    output.flush()?;
    Ok(())
}

/// Error of a list without the queues of a broker that does not respond.
fn none_unavailable(queues: &[UnavailableQueue]) -> anyhow::Result<()> {
    let lines: Vec<String> = queues.iter().map(UnavailableQueue::to_string).collect();
    ensure!(lines.is_empty(), "{}", lines.join("\n"));
    Ok(())
}

/// Requires `--yes`, or a yes on the terminal, for a change that cannot be undone.
fn require_confirmation(yes: bool, question: impl FnOnce() -> String) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !output::can_ask() {
        bail!(UsageError("this cannot be undone; repeat the command with --yes".to_owned()));
    }
    if output::confirm(&question())? {
        return Ok(());
    }
    bail!("cancelled; nothing was changed")
}

/// Reads up to `max` bytes of a file; `-` is standard input.
fn read_input(path: &Path, max: u64) -> Result<Vec<u8>, UsageError> {
    let mut bytes = Vec::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().take(max).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(max).read_to_end(&mut bytes))
    };
    read.map_err(|error| UsageError(format!("cannot read `{}`: {error}", path.display())))?;
    Ok(bytes)
}

/// Number with its noun: `1 message`, `2 messages`.
fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}
