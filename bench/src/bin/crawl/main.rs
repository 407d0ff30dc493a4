//! A whole crawl until every page can be searched, beside other crawlers or by several processes on shared servers; and what a
//! URL costs when there are many.
#![allow(clippy::print_stdout, reason = "a benchmark's tables are its output")]

mod chart;
mod frontier;
mod ours;
mod peers;
mod shared;
mod site;
mod table;

use anyhow::Context;
use clap::Parser;
use crawlway_bench::{children, measured::Spent, program};
use site::{Kind, Site};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use table::{Others, Row};

/// Crawls a generated site on loopback, robots.txt asked, without a gap and with 64 requests in flight. A page counts
/// once it can be searched.
#[derive(Debug, Parser)]
struct Arguments {
    /// Pages of the site.
    #[arg(long, default_value_t = DEFAULT_PAGES)]
    pages: usize,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Has Scrapy, Crawlee and spider crawl the same site, title and text to JSON lines. They are installed below the
    /// target directory first.
    #[arg(long)]
    peers: bool,
    /// Only these of them: scrapy, crawlee, spider.
    #[arg(long, value_delimiter = ',', requires = "peers")]
    only: Vec<String>,
    /// What carries the queues. With `rabbitmq`, the site is crawled by several processes on RabbitMQ, Redis and PostgreSQL,
    /// which `cargo xtask bench` starts, beside the crawl on embedded stores.
    #[arg(long, value_enum, default_value_t = Broker::Embedded, conflicts_with_all = ["peers", "frontier", "chart"])]
    broker: Broker,
    /// By how many processes that crawl.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    processes: Vec<usize>,
    /// Measures what a URL costs in crawls of 10,000, 100,000, … tiny pages, up to so many, instead.
    #[arg(long, value_name = "URLS")]
    frontier: Option<usize>,
    /// Where the chart goes; `docs/bench-crawl.svg` if there are peers and the usual number of pages, else nowhere.
    #[arg(long)]
    chart: Option<PathBuf>,
    /// The program to measure, instead of the one that is built from this source.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Serves a site until standard input ends: the other half, in a process of its own.
    #[arg(long, hide = true)]
    serve: Option<Kind>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Broker {
    Embedded,
    Rabbitmq,
}

const DEFAULT_PAGES: usize = 20_000;

/// Requests in flight, everybody's.
const IN_FLIGHT: usize = 64;

/// No run takes longer: the slowest peer needs some minutes on a machine that others use too.
const LIMIT: Duration = Duration::from_secs(1800);

fn main() -> anyhow::Result<ExitCode> {
    if let Some(failed) = children::become_asked() {
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
    if let Some(most) = arguments.frontier {
        return frontier::run(&program, scratch.path(), most, arguments.runs.max(1), arguments.json);
    }
    let peers = if arguments.peers { peers::install(&target, &arguments.only)? } else { Vec::new() };
    let site = Site::start(Kind::Pages, pages)?;
    let crawlers = match arguments.broker {
        Broker::Embedded => crawlers(&arguments, &program, peers)?,
        Broker::Rabbitmq => on_servers(&arguments.processes),
    };
    let rows = side_by_side(arguments.runs.max(1), &program, &crawlers, &site, scratch.path())?;
    let others = match arguments.broker {
        Broker::Embedded => "cores, others",
        Broker::Rabbitmq => "cores, servers and others",
    };
    if arguments.json {
        println!("{:#}", table::json(&rows, pages, arguments.runs));
    } else {
        table::print(&rows, pages, arguments.runs, others);
    }
    if arguments.broker == Broker::Rabbitmq {
        return Ok(());
    }
    let default = (pages == DEFAULT_PAGES && arguments.peers).then(|| docs().join("bench-crawl.svg"));
    if let Some(chart) = arguments.chart.or(default) {
        fs::write(&chart, chart::svg(&rows, pages)).with_context(|| format!("`{}`", chart.display()))?;
        eprintln!("wrote {}", chart.display());
    }
    Ok(())
}

/// Who crawls.
enum Crawler {
    /// One process, into its index.
    Searchable,
    /// One process, to JSON lines.
    Extract,
    /// So many processes, and an indexer and a gateway, on shared servers.
    Shared(usize),
    Peer(peers::Peer),
}

impl Crawler {
    fn row(&self) -> Row {
        match self {
            Self::Searchable => Row::ours("crawlway, searchable"),
            Self::Extract => Row::ours("crawlway, to JSON lines"),
            Self::Shared(1) => Row::ours("on servers, 1 process crawls"),
            Self::Shared(processes) => Row::ours(&format!("on servers, {processes} processes crawl")),
            Self::Peer(peer) => Row::peer(&peer.name),
        }
    }

    fn crawl(&self, program: &Path, site: &Site, place: &Path) -> anyhow::Result<Spent> {
        match self {
            Self::Searchable => ours::crawl(program, site, place, LIMIT),
            Self::Extract => ours::extract(program, site, place, LIMIT),
            Self::Shared(processes) => shared::crawl(program, site, place, *processes, LIMIT),
            Self::Peer(peer) => peer.crawl(site, place, LIMIT),
        }
    }
}

fn crawlers(arguments: &Arguments, program: &Path, peers: Vec<peers::Peer>) -> anyhow::Result<Vec<Crawler>> {
    let mut crawlers = vec![Crawler::Searchable];
    if arguments.peers && ours::can_extract(program)? {
        crawlers.push(Crawler::Extract);
    } else if arguments.peers {
        eprintln!(
            "note: `crawlway crawl` has no --out yet, so that the row of our own for the peers' work is left out"
        );
    }
    crawlers.extend(peers.into_iter().map(Crawler::Peer));
    Ok(crawlers)
}

fn on_servers(processes: &[usize]) -> Vec<Crawler> {
    let shared = processes.iter().map(|processes| Crawler::Shared((*processes).max(1)));
    [Crawler::Searchable].into_iter().chain(shared).collect()
}

/// All of them in turn, again and again, so that what else the machine does meets all alike.
fn side_by_side(
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
            let others = Others::watch(site)?;
            let spent = crawler.crawl(program, site, &place).with_context(|| row.name.clone())?;
            let others = others.cores(&spent, site)?;
            eprintln!(
                "run {run} of {runs}: {} in {:.2} s, {:.2} cores busy with other things",
                row.name,
                spent.wall.as_secs_f64(),
                others
            );
            row.add(&spent, others);
            clear(&place)?;
        }
    }
    Ok(rows)
}

/// Removes what a run left, so that the disk need not hold all runs at once.
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
