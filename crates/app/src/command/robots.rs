//! `crawlway robots`: check URLs against robots.txt.

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind, UsageError},
    open,
    output::{self, Output, one_line},
};
use anyhow::bail;
use clap::{Args, Subcommand};
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::{
    AllowedRange, FetchError, Fetcher, OnRateLimit,
    robots::{AGENT, Decision, MAX_BYTES, Robots},
};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Longer than any back-off, since a user at the command line rather waits than repeats the command.
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);

/// Check URLs against robots.txt
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  crawlway robots check https://example.org/private/

Exit codes: 0 all allowed; 1 at least one disallowed, or a robots.txt is unreachable; 2 invalid command
line.")]
pub(super) struct RobotsArgs {
    #[command(subcommand)]
    command: RobotsCommand,
}

#[derive(Debug, Subcommand)]
enum RobotsCommand {
    /// Show for each URL whether robots.txt allows it, and by which line
    #[command(after_help = "\
Examples:
  crawlway robots check example.org
  crawlway robots check https://example.org/private/ https://example.net/
  crawlway robots check example.org /a /b?c=d --agent Googlebot
  crawlway robots check --robots robots.txt https://example.org/private/
  crawlway robots check --robots - /a /b?c=d < robots.txt

A URL is absolute, a host (for https://HOST/), or a path and query on the site before it. The
robots.txt of each site is fetched with rate limiting; with --robots nothing is fetched. Only the
product token of the agent counts, such as `Crawlway` in `Crawlway/1.0 (+https://…)`.

JSON:
  {\"agent\", \"allowed\", \"crawl_delay_ms\": null | number,
    \"urls\": [{\"url\", \"allowed\", \"line\": null | number, \"rule\": null | text}]}
  the first `allowed` is true if all URLs are allowed; `crawl_delay_ms` is the longest of the sites;
  `rule` is the line in the file, null when no rule matches.
  If a robots.txt is unreachable:
  {\"error\": {\"code\", \"detail\", \"url\"}}

Exit codes: 0 all allowed; 1 at least one disallowed, or a robots.txt is unreachable; 2 invalid command
line, or the file cannot be read.")]
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Read this robots.txt instead of fetching; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "allow")]
    robots: Option<PathBuf>,
    /// User agent
    #[arg(long, value_name = "NAME", default_value = AGENT)]
    agent: String,
    /// Allow a private address range in the SSRF protection, such as 127.0.0.1/32:8080; may be repeated
    #[arg(long, value_name = "RANGE")]
    allow: Vec<AllowedRange>,
    /// URLs, hosts or paths
    #[arg(value_name = "URL", required = true)]
    urls: Vec<String>,
}

pub(super) async fn run(
    args: &RobotsArgs,
    settings: impl FnOnce() -> anyhow::Result<Config>,
    output: &mut Output,
) -> anyhow::Result<()> {
    let RobotsCommand::Check(args) = &args.command;
    if args.agent.trim().is_empty() {
        bail!(UsageError("--agent is empty; expected the name of a crawler such as `crawlway`".to_owned()));
    }
    let checked = match &args.robots {
        Some(file) => {
            let targets: Vec<String> = args.urls.iter().map(|url| target(url)).collect::<Result<_, _>>()?;
            let robots = Arc::new(Robots::parse(&super::read_input(file, MAX_BYTES as u64 + 1)?));
            targets.into_iter().map(|target| (robots.clone(), target)).collect()
        }
        None => {
            let pages = pages(&args.urls)?;
            match fetch_rules(&pages, args, &settings()?).await? {
                Ok(checked) => checked,
                Err(error) => return unreachable(&error, output),
            }
        }
    };
    print(args, &checked, output)
}

/// Fetches the robots.txt of each page's site; with the path and query to match.
async fn fetch_rules(
    pages: &[NormalUrl],
    args: &CheckArgs,
    config: &Config,
) -> anyhow::Result<Result<Vec<(Arc<Robots>, String)>, FetchError>> {
    let fetcher = Fetcher::new(config.fetch.setup(open::rate_limiter(config).await?, &args.allow)?)?;
    let mut checked = Vec::with_capacity(pages.len());
    for page in pages {
        let mut request = config.fetch.request(page.clone())?;
        request.on_rate_limit = OnRateLimit::Wait { max_wait: MAX_WAIT };
        request.robots_max_wait = Duration::ZERO;
        match fetcher.robots(&request).await {
            Ok(robots) => checked.push((robots, page.path_and_query().to_owned())),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(checked))
}

#[derive(Serialize)]
struct Unreachable<'a> {
    error: UnreachableError<'a>,
}

#[derive(Serialize)]
struct UnreachableError<'a> {
    code: &'static str,
    detail: &'a str,
    url: &'a str,
}

fn unreachable(error: &FetchError, output: &mut Output) -> anyhow::Result<()> {
    if output.is_json() {
        let FetchError { code, detail, url, .. } = error;
        output.json(&Unreachable { error: UnreachableError { code: code.as_str(), detail, url } })?;
        output.flush()?;
    } else {
        output::error(&one_line(&error.to_string()));
    }
    Err(AlreadyReported(ExitKind::Failed).into())
}

/// Parses the arguments: absolute URLs, hosts, and paths on the site before them.
fn pages(urls: &[String]) -> Result<Vec<NormalUrl>, UsageError> {
    let mut pages: Vec<NormalUrl> = Vec::with_capacity(urls.len());
    let options = UrlOptions::default();
    for url in urls {
        let invalid = |problem: String| UsageError(format!("`{url}`: {problem}"));
        let is_path = url.starts_with('/') && !url.starts_with("//");
        let page = match pages.last() {
            Some(site) if is_path => site.join(url, &options).map_err(|error| invalid(error.to_string()))?,
            None if is_path => {
                return Err(invalid(
                    "a path needs a site before it, such as `example.org`, or a file with --robots"
                        .to_owned(),
                ));
            }
            _ if url.contains("://") => {
                normalise(url, &options).map_err(|error| UsageError(error.to_string()))?
            }
            _ => normalise(&format!("https://{url}"), &options)
                .map_err(|error| UsageError(error.to_string()))?,
        };
        pages.push(page);
    }
    Ok(pages)
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

fn print(args: &CheckArgs, checked: &[(Arc<Robots>, String)], output: &mut Output) -> anyhow::Result<()> {
    let mut urls = Vec::new();
    for (url, (robots, target)) in args.urls.iter().zip(checked) {
        let Decision { allowed, rule } = robots.check(&args.agent, target);
        let (line, rule) = rule.map_or((None, None), |rule| (Some(rule.line), Some(rule.text)));
        urls.push(CheckedUrl { url, allowed, line, rule });
    }
    let all = urls.iter().all(|url| url.allowed);
    if output.is_json() {
        let crawl_delay = checked.iter().filter_map(|(robots, _)| robots.crawl_delay(&args.agent)).max();
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
    Err(AlreadyReported(ExitKind::Failed).into())
}

/// Path and query that the rules are matched against, in normal form.
fn target(url: &str) -> Result<String, UsageError> {
    if url.starts_with('/') && !url.starts_with("//") {
        return Ok(url.to_owned());
    }
    let normal = normalise(url, &UrlOptions::default()).map_err(|error| UsageError(error.to_string()))?;
    Ok(normal.path_and_query().to_owned())
}
