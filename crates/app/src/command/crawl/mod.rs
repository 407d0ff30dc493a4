//! `crawlway crawl`: crawls from some URLs until nothing is left, and makes the pages searchable.

mod here;
mod manage;
mod out;
mod progress;
mod through;
mod told;

pub(super) use here::{crawl, crawled};
pub(super) use progress::Watch;
pub(super) use told::Crawled;

use crate::{ask::Place, config::Config, output::Output, quantity::parse_duration};
use clap::Args;
use crawlway_fetch::Allowed;
use crawlway_store::CrawlId;
use out::Out;
use std::{
    num::{NonZeroU64, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

/// How often it is looked how far the crawl is.
const LOOK: Duration = Duration::from_millis(100);

const USAGE: &str = "\
crawlway crawl [OPTIONS] <URL>...
       crawlway crawl list|show|pause|resume|cancel|delete …";

/// Crawl from some URLs and make the pages searchable
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

A pattern is about path and query, or about the whole URL if it has `://` in it; `*` stands for
anything. Ctrl-C or SIGTERM finishes what is in flight; the same command goes on where it stopped.

A crawl is known by its name, and its terms may change: the same command with a higher --max-pages goes
on with what waits, with a wider scope it takes in what was left out. It tries again what had failed,
fetches the given URLs, and what was fetched longer ago than `search.recrawl_after`; pages that have
not changed are not sent whole. A page that another crawl has fetched lately is skipped, its links
are followed. --fresh fetches everything. A host that a given URL redirects to joins the scope.

Lines of --out are messages as `crawler_queue` has them. The file is added to, and a page that is in
it is written again only once it is due again, however often the command was killed. A new file gets
all pages of the crawl, also those that were fetched before.

While a gateway runs on the data directory, or --gateway names one, it crawls, on the terms of its
own settings; Ctrl-C then only ends the watching.

On a terminal a bar shows how far it is and what it waits for. Elsewhere a line on standard error does
so every 5 s, with --json as {\"progress\": {\"seconds\", \"done\", \"waiting\", \"in_flight\", \"dead\",
\"to_be_indexed\", \"rate_per_second\", \"waits_for\"}}. --verbose logs every request and every outcome
of a stage.

JSON:
  {\"crawl\", \"state\": \"running\" | \"finished\" | \"limited\" | \"paused\" | \"cancelled\", \"new\",
    \"added\", \"again\", \"recent\", \"skipped\", \"joined_hosts\", \"failed_seeds\": [{\"url\", \"outcome\",
    \"reason\"}], \"seconds\", \"indexed\", \"written\", \"counts\": {\"waiting\", \"in_flight\", \"done\",
    \"dead\", \"fetched\", \"outcomes\": {WORD: n}, \"left_out\": {WORD: n}}, \"not_indexed\"}
  `indexed` is how many pages this run has put into the index, `written` how many into the file of
  --out, `recent` how many were left as they are, `skipped` how many another crawl has fetched lately,
  `outcomes` are of the whole crawl, `not_indexed` how many pages of all crawls became dead letters
  on their way into the index. With `--out -` it goes to standard error.

Exit codes: 0 nothing is left to do, or the page limit is reached; 1 it failed, or no given URL could be crawled; 2 the command line or a setting is wrong;
3 it was asked to stop before the end."
)]
pub(super) struct CrawlArgs {
    #[command(subcommand)]
    command: Option<manage::CrawlCommand>,
    /// Where to begin; `-` reads URLs from standard input, one per line. These are fetched whenever they are given, however
    /// lately they were
    #[arg(value_name = "URL", required_unless_present = "from")]
    seeds: Vec<String>,
    /// Read URLs to begin with from this file, one per line; may be repeated
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// The crawl's name, to go on with it on other terms later; by default made from the URLs, such as `example.org`
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<CrawlId>,
    /// Fetch everything again, whatever was fetched lately by this or another crawl
    #[arg(long)]
    fresh: bool,
    /// Visit this host: `example.org`, `*.example.org` or `example.org:8080`; may be repeated. Without it, the
    /// hosts of the URLs are visited
    #[arg(long, alias = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Visit only URLs that fit this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Visit no URL that fits this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Go at most so many links away from where it begins
    #[arg(long, alias = "depth", value_name = "N")]
    max_depth: Option<u32>,
    /// Fetch at most so many pages
    #[arg(long, alias = "pages", value_name = "N", value_parser = at_least_one)]
    max_pages: Option<NonZeroU64>,
    /// Read the sitemaps of the hosts too
    #[arg(long, alias = "sitemap")]
    sitemaps: bool,
    /// Crawl a page again after this long, whatever `search.recrawl_after` says
    #[arg(long, value_name = "TIME", value_parser = duration)]
    recrawl_after: Option<Duration>,
    /// Write the pages to this file, one JSON object a line, instead of indexing them; `-` is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<Out>,
    /// Allow an address range that is not public, such as 127.0.0.1/32:8080; may be repeated
    #[arg(long, value_name = "RANGE")]
    allow: Vec<Allowed>,
    /// Do not ask robots.txt
    #[arg(long)]
    no_robots: bool,
    /// Have at most so many requests to one host in flight, whatever `fetch.in_flight` says
    #[arg(long, value_name = "N")]
    in_flight: Option<NonZeroUsize>,
    /// Leave a host alone for so long between two requests, whatever `fetch.gap` says
    #[arg(long, value_name = "TIME", value_parser = duration)]
    gap: Option<Duration>,
    /// Do not show how far it is
    #[arg(long, short)]
    quiet: bool,
}

impl CrawlArgs {
    /// For whom progress is shown.
    fn watch(&self, output: &Output) -> Watch {
        match (self.quiet, output.is_json()) {
            (true, _) => Watch::Quiet,
            (false, true) => Watch::Programs,
            (false, false) => Watch::People,
        }
    }
}

fn name(text: &str) -> Result<CrawlId, String> {
    CrawlId::new(text).map_err(|error| error.to_string())
}

fn at_least_one(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| "expected a whole number from 1 on; leave it out for no limit".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("expected {}", crate::quantity::DURATION))
}

pub(super) async fn run(mut args: CrawlArgs, config: Config, output: &mut Output) -> anyhow::Result<()> {
    if let Some(command) = args.command.take() {
        return manage::run(command, &config, output).await;
    }
    let seeds = super::given::urls(std::mem::take(&mut args.seeds), &args.from)?;
    args.seeds = seeds.into_iter().map(|seed| seed.url).collect();
    let gateway = match Place::of(&config)? {
        Place::Gateway(client) => Some(client),
        Place::Data(_) => None,
    };
    match gateway {
        Some(client) => through::run(args, &client, output).await,
        None => here::run(args, config, output).await,
    }
}
