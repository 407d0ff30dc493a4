//! `crawlway crawl`: crawls from seed URLs and makes the pages searchable. `local.rs` crawls in this process, `remote.rs` in a
//! gateway.

mod counts;
mod local;
mod manage;
mod out;
mod progress;
mod remote;
mod report;

pub(super) use local::{crawl, local_report};
pub(super) use progress::ProgressMode;
pub(super) use report::CrawlReport;

use crate::{config::Config, output::Output, quantity::parse_duration, service::Target};
use clap::Args;
use crawlway_fetch::AllowedRange;
use crawlway_store::CrawlId;
use out::Out;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

/// Interval at which a local crawl is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const USAGE: &str = "\
crawlway crawl [OPTIONS] <URL>...
       crawlway crawl list|show|pause|resume|cancel|delete …";

/// Crawl from seed URLs and make the pages searchable
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    override_usage = USAGE,
    after_help = "\
Examples:
  crawlway crawl https://example.org/                          the whole host
  crawlway crawl https://example.org/ --max-pages 500 --max-depth 3
  crawlway crawl https://example.org/ --hosts '*.example.org' --exclude '*.pdf' --sitemaps
  crawlway crawl https://example.org/ --out pages.jsonl
  crawlway crawl --from urls.txt                               one URL per line, # comments
  crawlway crawl --allow 127.0.0.1/32:8080 http://127.0.0.1:8080/

A pattern matches the path and query, or the whole URL if it contains `://`; `*` matches anything.
Ctrl-C or SIGTERM is a graceful shutdown: requests in flight finish. The same command resumes the
crawl.

A crawl has a name, and its settings may change between runs. A higher --max-pages continues with the
pending URLs. A wider scope adds URLs that were out of scope. Each run retries failed URLs, fetches the
seeds, and refetches pages older than `search.recrawl_after`, with conditional requests. A page that
another crawl fetched within that time is skipped, but its links are followed. --fresh refetches
everything. A host that a seed redirects to joins the scope.

--out writes messages as they are in `crawler_queue`. It appends, and writes a page again only when it
is due for a recrawl, also after a crash. A new file gets all pages of the crawl.

While a gateway runs on the data directory, or with --gateway, the gateway crawls, with its own
settings. Ctrl-C then only stops following the crawl.

On a terminal a progress bar is shown. Elsewhere a line is written to standard error every 5 s, with
--json as {\"progress\": {\"seconds\", \"done\", \"waiting\", \"in_flight\", \"dead\", \"to_be_indexed\",
\"rate_per_second\", \"waits_for\"}}. --verbose logs every request and every outcome of a stage.

JSON:
  {\"crawl\", \"state\": \"running\" | \"finished\" | \"limited\" | \"paused\" | \"cancelled\", \"new\",
    \"added\", \"again\", \"recent\", \"skipped\", \"joined_hosts\", \"failed_seeds\": [{\"url\", \"outcome\",
    \"reason\"}], \"seconds\", \"indexed\", \"written\", \"counts\": {\"waiting\", \"in_flight\", \"done\",
    \"dead\", \"fetched\", \"outcomes\": {WORD: n}, \"left_out\": {WORD: n}}, \"not_indexed\"}
  `indexed`: pages that this run put into the index; `written`: pages that it wrote to --out;
  `recent`: pages not yet due for a recrawl; `skipped`: pages that another crawl fetched recently;
  `outcomes`: results of the whole crawl, several for a URL that is crawled again;
  `not_indexed`: dead letters of `crawler_queue`, of all crawls.
  With `--out -` the JSON goes to standard error.

Exit codes: 0 the crawl is finished, or the page limit is reached; 1 failure, or every seed failed;
2 invalid command line or setting; 3 stopped before the end."
)]
pub(super) struct CrawlArgs {
    #[command(subcommand)]
    command: Option<manage::CrawlCommand>,
    /// Seed URLs; `-` reads them from standard input, one per line. Seeds are always fetched
    #[arg(value_name = "URL", required_unless_present = "from")]
    seeds: Vec<String>,
    /// Read seed URLs from this file, one per line; may be repeated
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Name of the crawl, to continue it later with other settings; default: from the seeds, such as `example.org`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<CrawlId>,
    /// Refetch everything, whatever this or another crawl fetched recently
    #[arg(long)]
    fresh: bool,
    /// Host in scope: `example.org`, `*.example.org` or `example.org:8080`; may be repeated. Default: the hosts of
    /// the seeds
    #[arg(long, alias = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Only fetch URLs that match this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Do not fetch URLs that match this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Maximum number of links from a seed
    #[arg(long, alias = "depth", value_name = "N")]
    max_depth: Option<u32>,
    /// Maximum number of pages to fetch
    #[arg(long, alias = "pages", value_name = "N", value_parser = at_least_one)]
    max_pages: Option<NonZeroU64>,
    /// Add the URLs of the hosts' sitemaps
    #[arg(long, alias = "sitemap")]
    sitemaps: bool,
    /// Refetch pages older than this; overrides `search.recrawl_after`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    recrawl_after: Option<Duration>,
    /// Write pages to this file as JSON lines instead of indexing them; `-` is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<Out>,
    /// Allow a private address range in the SSRF protection, such as 127.0.0.1/32:8080; may be repeated
    #[arg(long, value_name = "RANGE")]
    allow: Vec<AllowedRange>,
    /// Ignore robots.txt
    #[arg(long)]
    no_robots: bool,
    /// Maximum concurrency per host; overrides `fetch.per_host_concurrency`
    #[arg(long, alias = "in-flight", value_name = "N")]
    per_host_concurrency: Option<NonZeroUsize>,
    /// Minimum delay between two requests to a host; overrides `fetch.min_delay`
    #[arg(long, alias = "gap", value_name = "TIME", value_parser = duration)]
    min_delay: Option<Duration>,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
}

impl CrawlArgs {
    fn progress_mode(&self, output: &Output) -> ProgressMode {
        match (self.quiet, output.is_json()) {
            (true, _) => ProgressMode::Quiet,
            (false, true) => ProgressMode::Json,
            (false, false) => ProgressMode::Text,
        }
    }
}

fn name(text: &str) -> Result<CrawlId, String> {
    CrawlId::new(text).map_err(|error| error.to_string())
}

fn at_least_one(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| "expected a whole number from 1; leave it out for no limit".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("expected {}", crate::quantity::DURATION_SYNTAX))
}

pub(super) async fn run(mut args: CrawlArgs, config: Config, output: &mut Output) -> anyhow::Result<()> {
    if let Some(command) = args.command.take() {
        return manage::run(command, &config, output).await;
    }
    let seeds = super::url_args::urls(std::mem::take(&mut args.seeds), &args.from)?;
    args.seeds = seeds.into_iter().map(|seed| seed.url).collect();
    if let Target::Remote(client) = Target::of(&config)? {
        return remote::run(args, &client, output).await;
    }
    local::run(args, config, output).await
}
