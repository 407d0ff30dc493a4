//! A whole crawl until every page can be searched, beside other crawlers; and what a URL costs when there are many.
#![allow(clippy::print_stdout, reason = "a benchmark's tables are its output")]

mod chart;
mod frontier;
mod measured;
mod ours;
mod peers;
mod site;
mod table;

use anyhow::Context;
use clap::Parser;
use site::{Kind, Site};
use std::{
    fs,
    path::{Path, PathBuf},
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
    /// Measures what a URL costs in crawls of 10,000, 100,000, … tiny pages, up to so many, instead.
    #[arg(long, value_name = "URLS")]
    frontier: Option<usize>,
    /// Where the chart goes; `docs/bench-crawl.svg` if the site has the usual number of pages, else nowhere.
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

const DEFAULT_PAGES: usize = 20_000;

/// Requests in flight, everybody's.
const IN_FLIGHT: usize = 64;

/// No run takes longer: the slowest peer needs some minutes on a machine that others use too.
const LIMIT: Duration = Duration::from_secs(1800);

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let pages = arguments.pages.max(1);
    if let Some(kind) = arguments.serve {
        return site::serve(kind, pages);
    }
    let program = match &arguments.program {
        Some(program) => program.canonicalize().with_context(|| format!("`{}`", program.display()))?,
        None => ours::build()?,
    };
    let target = target_directory()?;
    let scratch = tempfile::Builder::new().prefix("bench-crawl-").tempdir_in(&target)?;
    if let Some(most) = arguments.frontier {
        return frontier::run(&program, scratch.path(), most, arguments.json);
    }
    let peers = if arguments.peers { peers::install(&target, &arguments.only)? } else { Vec::new() };
    let site = Site::start(Kind::Pages, pages)?;
    let rows = side_by_side(&arguments, &program, &peers, &site, scratch.path())?;
    if arguments.json {
        println!("{:#}", table::json(&rows, pages, arguments.runs));
    } else {
        table::print(&rows, pages, arguments.runs);
    }
    let default = (pages == DEFAULT_PAGES).then(|| docs().join("bench-crawl.svg"));
    if let Some(chart) = arguments.chart.or(default) {
        fs::write(&chart, chart::svg(&rows, pages)).with_context(|| format!("`{}`", chart.display()))?;
        eprintln!("wrote {}", chart.display());
    }
    Ok(())
}

/// All of them in turn, again and again, so that what else the machine does meets all alike.
fn side_by_side(
    arguments: &Arguments,
    program: &Path,
    peers: &[peers::Peer],
    site: &Site,
    scratch: &Path,
) -> anyhow::Result<Vec<Row>> {
    let extracts = arguments.peers && ours::can_extract(program)?;
    if arguments.peers && !extracts {
        eprintln!(
            "note: `crawlway crawl` has no --out yet, so that the row of our own for the peers' work is left out"
        );
    }
    let mut rows = vec![Row::ours("crawlway, searchable")];
    if extracts {
        rows.push(Row::ours("crawlway, to JSON lines"));
    }
    rows.extend(peers.iter().map(|peer| Row::peer(&peer.name)));
    for run in 1..=arguments.runs.max(1) {
        for (number, row) in rows.iter_mut().enumerate() {
            let place = scratch.join(format!("{number}-{run}"));
            let others = Others::watch(site)?;
            let spent = match number {
                0 => ours::crawl(program, site, &place, LIMIT),
                1 if extracts => ours::extract(program, site, &place, LIMIT),
                _ => peers[number - 1 - usize::from(extracts)].crawl(site, &place, LIMIT),
            };
            let spent = spent.with_context(|| row.name.clone())?;
            let others = others.cores(&spent, site)?;
            eprintln!(
                "run {run} of {}: {} in {:.2} s, {:.2} cores busy with other things",
                arguments.runs,
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

/// Where cargo builds; this program is in a folder of it.
fn target_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().and_then(Path::parent).context("this program is in no target directory")?.to_owned())
}

fn docs() -> PathBuf {
    // Set by `cargo run`.
    std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from("docs"), |bench| Path::new(&bench).join("../docs"))
}
