//! A whole crawl until every page is searchable, compared with other crawlers or by several processes on shared servers; and the
//! cost per URL in large crawls.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod chart;
mod crawlway;
mod distributed;
mod frontier;
mod peers;
mod site;
mod table;

use anyhow::Context;
use clap::Parser;
use crawlway_bench::{child_process, measure::Usage, program};
use site::{Kind, Site};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use table::{BackgroundLoad, Row};

/// Crawls a generated site on loopback with robots.txt, without a minimum delay, with 64 concurrent requests. A page counts once it
/// is searchable.
#[derive(Debug, Parser)]
struct Arguments {
    /// Pages of the site.
    #[arg(long, default_value_t = DEFAULT_PAGES)]
    pages: usize,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Also crawls the site with Scrapy, Crawlee and spider, title and text to JSON lines. They are installed in the target
    /// directory. With the default number of pages, `docs/bench-crawl.svg` is written.
    #[arg(long)]
    peers: bool,
    /// Broker. With `rabbitmq`, several processes crawl the site on RabbitMQ, Redis and PostgreSQL, which `cargo xtask bench`
    /// starts, compared with the crawl on embedded stores.
    #[arg(long, value_enum, default_value_t = Broker::Embedded, conflicts_with_all = ["peers", "frontier"])]
    broker: Broker,
    /// Numbers of processes for that crawl.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    processes: Vec<usize>,
    /// Measures the cost per URL in crawls of 10,000, 100,000, … tiny pages, up to this number, instead.
    #[arg(long, value_name = "URLS")]
    frontier: Option<usize>,
    /// Program to measure, instead of the one built from this source.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Serves a site until standard input ends, in its own process.
    #[arg(long, hide = true)]
    serve: Option<Kind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Broker {
    Embedded,
    Rabbitmq,
}

const DEFAULT_PAGES: usize = 20_000;

/// Concurrent requests of every crawler.
const IN_FLIGHT: usize = 64;

/// Timeout of a run; the slowest crawler needs some minutes.
const RUN_TIMEOUT: Duration = Duration::from_secs(1800);

fn main() -> anyhow::Result<ExitCode> {
    if let Some(failed) = child_process::exec_child() {
        return Ok(failed);
    }
    run(Arguments::parse()).map(|()| ExitCode::SUCCESS)
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let pages = arguments.pages.max(1);
    if let Some(kind) = arguments.serve {
        return site::serve(kind, pages);
    }
    let program = program::find(arguments.program.as_deref())?;
    let target = program::target_directory()?;
    let scratch = tempfile::Builder::new().prefix("bench-crawl-").tempdir_in(&target)?;
    if let Some(max) = arguments.frontier {
        return frontier::run(&program, scratch.path(), max, arguments.runs.max(1));
    }
    let peers = if arguments.peers { peers::install(&target)? } else { Vec::new() };
    let site = Site::start(Kind::Pages, pages)?;
    let crawlers = match arguments.broker {
        Broker::Embedded => crawlers(peers),
        Broker::Rabbitmq => on_servers(&arguments.processes),
    };
    let rows = compare(arguments.runs.max(1), &program, &crawlers, &site, scratch.path())?;
    let background = match arguments.broker {
        Broker::Embedded => "cores, other load",
        Broker::Rabbitmq => "cores, servers and other load",
    };
    table::print(&rows, pages, arguments.runs, background);
    if pages == DEFAULT_PAGES && arguments.peers {
        let chart = docs().join("bench-crawl.svg");
        fs::write(&chart, chart::svg(&rows, pages)).with_context(|| format!("`{}`", chart.display()))?;
        eprintln!("wrote {}", chart.display());
    }
    Ok(())
}

/// Crawler under test.
enum Crawler {
    /// One process, to its search index.
    Searchable,
    /// One process, to JSON lines.
    Extract,
    /// Several crawling processes, an indexer and a gateway, on shared servers.
    Distributed(usize),
    Peer(peers::Peer),
}

impl Crawler {
    fn row(&self) -> Row {
        match self {
            Self::Searchable => Row::crawlway("crawlway, searchable"),
            Self::Extract => Row::crawlway("crawlway, to JSON lines"),
            Self::Distributed(1) => Row::crawlway("on servers, 1 process crawls"),
            Self::Distributed(processes) => {
                Row::crawlway(&format!("on servers, {processes} processes crawl"))
            }
            Self::Peer(peer) => Row::peer(&peer.name),
        }
    }

    fn crawl(&self, program: &Path, site: &Site, place: &Path) -> anyhow::Result<Usage> {
        match self {
            Self::Searchable => crawlway::crawl(program, site, place, RUN_TIMEOUT),
            Self::Extract => crawlway::extract(program, site, place, RUN_TIMEOUT),
            Self::Distributed(processes) => distributed::crawl(program, site, place, *processes, RUN_TIMEOUT),
            Self::Peer(peer) => peer.crawl(site, place, RUN_TIMEOUT),
        }
    }
}

fn crawlers(peers: Vec<peers::Peer>) -> Vec<Crawler> {
    let mut crawlers = vec![Crawler::Searchable];
    if !peers.is_empty() {
        crawlers.push(Crawler::Extract);
    }
    crawlers.extend(peers.into_iter().map(Crawler::Peer));
    crawlers
}

fn on_servers(processes: &[usize]) -> Vec<Crawler> {
    let shared = processes.iter().map(|processes| Crawler::Distributed((*processes).max(1)));
    [Crawler::Searchable].into_iter().chain(shared).collect()
}

/// Runs all crawlers in turn, repeatedly, so that other load affects all alike.
fn compare(
    runs: usize,
    program: &Path,
    crawlers: &[Crawler],
    site: &Site,
    scratch: &Path,
) -> anyhow::Result<Vec<Row>> {
    let mut rows: Vec<Row> = crawlers.iter().map(Crawler::row).collect();
    for run in 1..=runs {
        for (number, (crawler, row)) in crawlers.iter().zip(&mut rows).enumerate() {
            let place = scratch.join(format!("{number}-{run}"));
            let background = BackgroundLoad::start(site)?;
            let usage = crawler.crawl(program, site, &place).with_context(|| row.name.clone())?;
            let background = background.cores(&usage, site)?;
            eprintln!(
                "run {run} of {runs}: {} in {:.2} s, {:.2} cores of other load",
                row.name,
                usage.wall.as_secs_f64(),
                background
            );
            row.add(&usage, background);
            clear(&place)?;
        }
    }
    Ok(rows)
}

/// Removes the files of a run.
fn clear(place: &Path) -> anyhow::Result<()> {
    let _ = fs::remove_file(place.with_extension("jsonl"));
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    Ok(())
}

fn docs() -> PathBuf {
    // Set by `cargo run`, and by `cargo xtask bench`.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from("docs"), |bench| Path::new(&bench).join("../docs"))
}
