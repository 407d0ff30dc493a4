//! `crawlway fetch`: fetches a page politely, or takes one from a file, and shows what it becomes.

mod becomes;
mod told;

use crate::{
    config::Config,
    failure::{ExitKind, Told, UsageError},
    open,
    output::{self, Output, one_line},
};
use anyhow::bail;
use becomes::Becomes;
use clap::Args;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::{Allowed, Fetcher, Waiting};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

/// Longer than any back-off: who asks for one page at the command line would rather wait than come again.
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 60);

/// Fetch a page politely and show what it becomes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  crawlway fetch https://example.org/                      headers, timing, redirects, title, text
  crawlway fetch --allow 127.0.0.1/32:8080 http://127.0.0.1:8080/
  crawlway fetch --html page.html --url https://example.org/page --json
  curl -s https://example.org/ | crawlway fetch --html - --url https://example.org/

A fetch asks robots.txt first, waits for its turn, and dials public addresses only. With --html
nothing is fetched: the file is read as the crawler would read it had it come from --url.

JSON with --html:
  {\"url\", \"title\", \"description\": null | text, \"language\": null | text, \"text\",
    \"links\": [URL, …], \"simhash\"}
  `url` and `links` are in normal form, each link once in the order of the page; `text` is the
  main text as the index gets it, in lower case with white space collapsed; `simhash` is a signed
  64-bit number.

JSON of a fetch:
  {\"asked\", \"url\", \"status\", \"version\", \"address\", \"redirects\": [{\"url\", \"status\"}],
    \"headers\": [[NAME, VALUE], …], \"sent_bytes\", \"body_bytes\",
    \"timing_ms\": {\"gate\", \"lookup\", \"dial\", \"tls\", \"first_byte\", \"total\"},
    \"page\": null | as above}
  or, when it fails,
  {\"error\": {\"code\", \"transient\", \"detail\", \"url\", \"not_before\": null | time}}

Exit codes: 0 there is an answer, whatever its status; 1 there is none; 2 the command line or a
setting is wrong. The codes of failures are listed in docs/errors.md.")]
pub(super) struct FetchArgs {
    /// The page to fetch
    #[arg(value_name = "URL", required_unless_present = "html", conflicts_with = "html")]
    address: Option<String>,
    /// Do not ask robots.txt
    #[arg(long, conflicts_with = "html")]
    no_robots: bool,
    /// Allow an address range that is not public, such as 127.0.0.1/32:8080; may be repeated
    #[arg(long, value_name = "RANGE", conflicts_with = "html")]
    allow: Vec<Allowed>,
    /// Read the page from this file instead; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "url")]
    html: Option<PathBuf>,
    /// Where the page in the file is from
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
        (_, _, Some(address)) => from_the_web(&args, address, &settings()?, output).await,
        _ => bail!(UsageError("expected a URL, or --html with --url".to_owned())),
    }
}

fn from_file(file: &Path, url: &str, output: &mut Output) -> anyhow::Result<()> {
    let url = normal(url)?;
    let page = Becomes::of(&read(file)?, None, &url);
    if output.is_json() { Ok(output.json(&page)?) } else { Ok(page.tell(output)?) }
}

async fn from_the_web(
    args: &FetchArgs,
    address: &str,
    config: &Config,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut request = config.fetch.request(normal(address)?)?;
    request.robots = !args.no_robots;
    request.waiting = Waiting::Here { at_most: LONGEST_WAIT };
    // One page on demand: an unreachable robots.txt is reported at once.
    request.robots_max_wait = Duration::ZERO;
    let fetcher = Fetcher::new(config.fetch.setup(open::gate(config).await?, &args.allow)?)?;
    let fetched = match fetcher.fetch(&request).await {
        Ok(fetched) => fetched,
        Err(error) => {
            if output.is_json() {
                output.json(&told::Failed::from(&error))?;
                output.flush()?;
            } else {
                output::error(&one_line(&error.to_string()));
            }
            return Err(Told(ExitKind::Failed).into());
        }
    };
    let page =
        becomes::is_html(&fetched).then(|| Becomes::of(&fetched.body, fetched.content_type(), &fetched.url));
    if output.is_json() {
        return Ok(output.json(&told::Answer::new(&request.url, &fetched, page.as_ref()))?);
    }
    told::tell(&fetched, output)?;
    output.line("")?;
    match page {
        Some(page) => Ok(page.tell(output)?),
        None => Ok(output.line("not a page: its content is not HTML or text")?),
    }
}

fn normal(url: &str) -> Result<NormalUrl, UsageError> {
    normalise(url, &UrlOptions::default()).map_err(|error| UsageError(error.to_string()))
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        io::stdin().read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| UsageError(format!("cannot read `{}`: {error}", file.display())))?;
    Ok(bytes)
}
