//! `crawlway fetch`: fetches one page, or reads it from a file, and shows what the crawler extracts.

mod page;
mod report;

use crate::{
    config::Config,
    failure::{AlreadyReported, ExitKind, UsageError},
    open,
    output::{self, Output, one_line},
};
use anyhow::bail;
use clap::Args;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::{AllowedRange, Fetcher, OnRateLimit};
use page::ParsedPage;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Longer than any back-off, since a user at the command line rather waits than repeats the command.
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);

/// Fetch one page and show what the crawler extracts from it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway fetch https://example.org/                      headers, timing, redirects, title, text
  crawlway fetch --allow 127.0.0.1/32:8080 http://127.0.0.1:8080/
  crawlway fetch --html page.html --url https://example.org/page --json
  curl -s https://example.org/ | crawlway fetch --html - --url https://example.org/

A fetch obeys robots.txt, the rate limiter and the SSRF protection. With --html nothing is fetched:
the file is parsed as if it were the response of --url.

JSON with --html:
  {\"url\", \"title\", \"description\": null | text, \"language\": null | text, \"text\",
    \"links\": [URL, …], \"simhash\"}
  `url` and `links` are in normal form, each link once, in document order; `text` is the main
  text as it is indexed, in lower case with white space collapsed; `simhash` is a signed 64-bit number.

JSON of a fetch:
  {\"asked\", \"url\", \"status\", \"version\", \"address\", \"redirects\": [{\"url\", \"status\"}],
    \"headers\": [[NAME, VALUE], …], \"sent_bytes\", \"body_bytes\",
    \"timing_ms\": {\"rate_limit\", \"lookup\", \"dial\", \"tls\", \"first_byte\", \"total\"},
    \"page\": null | as above}
  or, on failure,
  {\"error\": {\"code\", \"transient\", \"detail\", \"url\", \"not_before\": null | time}}

Exit codes: 0 a response, whatever its status; 1 failure; 2 invalid command line or setting. The codes
of failures are listed in docs/errors.md.")]
pub(super) struct FetchArgs {
    /// URL of the page
    #[arg(value_name = "URL", required_unless_present = "html", conflicts_with = "html")]
    address: Option<String>,
    /// Ignore robots.txt
    #[arg(long, conflicts_with = "html")]
    no_robots: bool,
    /// Allow a private address range in the SSRF protection, such as 127.0.0.1/32:8080; may be repeated
    #[arg(long, value_name = "RANGE", conflicts_with = "html")]
    allow: Vec<AllowedRange>,
    /// Read the page from this file; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "url")]
    html: Option<PathBuf>,
    /// URL of the page in the file
    #[arg(long, value_name = "URL", requires = "html")]
    url: Option<String>,
}

pub(super) async fn run(
    args: FetchArgs,
    settings: impl FnOnce() -> anyhow::Result<Config>,
    output: &mut Output,
) -> anyhow::Result<()> {
    match (&args.html, &args.url, &args.address) {
        (Some(file), Some(url), _) => from_file(file, url, output),
        (_, _, Some(address)) => from_server(&args, address, &settings()?, output).await,
        _ => bail!(UsageError("expected a URL, or --html with --url".to_owned())),
    }
}

fn from_file(file: &Path, url: &str, output: &mut Output) -> anyhow::Result<()> {
    let url = normal(url)?;
    let page = ParsedPage::parse(&super::read_input(file, u64::MAX)?, None, &url);
    if output.is_json() { Ok(output.json(&page)?) } else { Ok(page.print(output)?) }
}

async fn from_server(
    args: &FetchArgs,
    address: &str,
    config: &Config,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut request = config.fetch.request(normal(address)?)?;
    request.obey_robots = !args.no_robots;
    request.on_rate_limit = OnRateLimit::Wait { max_wait: MAX_WAIT };
    // An unreachable robots.txt is reported at once.
    request.robots_max_wait = Duration::ZERO;
    let fetcher = Fetcher::new(config.fetch.setup(open::rate_limiter(config).await?, &args.allow)?)?;
    let fetched = match fetcher.fetch(&request).await {
        Ok(fetched) => fetched,
        Err(error) => {
            if output.is_json() {
                output.json(&report::FailureReport::from(&error))?;
                output.flush()?;
            } else {
                output::error(&one_line(&error.to_string()));
            }
            return Err(AlreadyReported(ExitKind::Failed).into());
        }
    };
    let page = page::is_html(&fetched)
        .then(|| ParsedPage::parse(&fetched.body, fetched.content_type(), &fetched.url));
    if output.is_json() {
        return Ok(output.json(&report::FetchReport::new(&request.url, &fetched, page.as_ref()))?);
    }
    report::print(&fetched, output)?;
    output.line("")?;
    match page {
        Some(page) => Ok(page.print(output)?),
        None => Ok(output.line("not a page: the content type is not HTML or text")?),
    }
}

fn normal(url: &str) -> Result<NormalUrl, UsageError> {
    normalise(url, &UrlOptions::default()).map_err(|error| UsageError(error.to_string()))
}
