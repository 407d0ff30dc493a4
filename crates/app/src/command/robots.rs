//! `crawlway robots`: what a robots.txt allows.

use crate::{
    failure::{ExitKind, Told, UsageError},
    output::{Output, one_line},
};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_fetch::robots::{AGENT, Decision, MAX_BYTES, Robots};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

/// Say what a robots.txt allows
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all are allowed; 1 at least one is not; 2 the command line is wrong.")]
pub(super) struct RobotsArgs {
    #[command(subcommand)]
    command: RobotsCommand,
}

#[derive(Debug, Subcommand)]
enum RobotsCommand {
    /// Say for each URL whether a robots.txt allows it, and which line decides
    #[command(after_help = "\
Examples:
  crawlway robots check --robots robots.txt https://example.org/private/
  crawlway robots check --robots - --agent Googlebot /a /b?c=d < robots.txt

Nothing is fetched. A URL is a whole one, or the path and query alone. Of the agent only the product
token counts, as of `Crawlway/1.0 (+https://…)`.

JSON:
  {\"agent\", \"allowed\", \"crawl_delay_ms\": null | number,
    \"urls\": [{\"url\", \"allowed\", \"line\": null | number, \"rule\": null | text}]}
  `allowed` at the top is whether all are; `rule` is the line as it stands in the file, null when no
  rule matches.

Exit codes: 0 all are allowed, 1 at least one is not, 2 the command line is wrong or the file
cannot be read.")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The robots.txt; `-` is standard input
    #[arg(long, value_name = "FILE")]
    robots: PathBuf,
    /// For whom
    #[arg(long, value_name = "NAME", default_value = AGENT)]
    agent: String,
    /// The URLs, or their paths with queries
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
}

pub(super) fn run(args: &RobotsArgs, output: &mut Output) -> anyhow::Result<()> {
    match &args.command {
        RobotsCommand::Check(args) => check(args, output),
    }
}

#[derive(Serialize)]
struct Checked<'a> {
    agent: &'a str,
    allowed: bool,
    crawl_delay_ms: Option<u64>,
    urls: Vec<CheckedUrl<'a>>,
}

#[derive(Serialize)]
struct CheckedUrl<'a> {
    url: &'a str,
    allowed: bool,
    line: Option<usize>,
    rule: Option<String>,
}

fn check(args: &CheckArgs, output: &mut Output) -> anyhow::Result<()> {
    if args.agent.trim().is_empty() {
        bail!(UsageError("--agent is empty; expected the name of a crawler such as `crawlway`".to_owned()));
    }
    let targets: Vec<String> = args.urls.iter().map(|url| target(url)).collect::<Result<_, _>>()?;
    let robots = Robots::parse(&read(args)?);
    let mut urls = Vec::new();
    for (url, target) in args.urls.iter().zip(targets) {
        let Decision { allowed, rule } = robots.check(&args.agent, &target);
        let (line, rule) = rule.map_or((None, None), |rule| (Some(rule.line), Some(rule.text)));
        urls.push(CheckedUrl { url, allowed, line, rule });
    }
    let all = urls.iter().all(|url| url.allowed);
    if output.is_json() {
        let crawl_delay = robots.crawl_delay(&args.agent);
        output.json(&Checked {
            agent: &args.agent,
            allowed: all,
            crawl_delay_ms: crawl_delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
            urls,
        })?;
    } else {
        for CheckedUrl { url, allowed, line, rule } in &urls {
            let word = if *allowed { "allowed" } else { "disallowed" };
            let why = match (line, rule) {
                (Some(line), Some(rule)) => format!("line {line}: {}", one_line(rule)),
                _ => "no rule matches".to_owned(),
            };
            output.line(&format!("{word:<10}  {}  ({why})", one_line(url)))?;
        }
    }
    if all {
        return Ok(());
    }
    output.flush()?;
    Err(Told(ExitKind::Failed).into())
}

/// What the rules are matched against: the URL as the crawler would ask for it.
fn target(url: &str) -> Result<String, UsageError> {
    if url.starts_with('/') && !url.starts_with("//") {
        return Ok(url.to_owned());
    }
    let normal = normalise(url, &UrlOptions::default()).map_err(|error| UsageError(error.to_string()))?;
    Ok(normal.path_and_query().to_owned())
}

/// What counts of the file.
fn read(args: &CheckArgs) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = MAX_BYTES as u64 + 1;
    if args.robots.as_os_str() == "-" {
        io::stdin().take(most).read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    let read = File::open(&args.robots).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| UsageError(format!("cannot read `{}`: {error}", args.robots.display())))?;
    Ok(bytes)
}
