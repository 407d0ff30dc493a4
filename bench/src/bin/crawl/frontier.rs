//! Cost per URL: crawls of tiny pages, each ten times as large as the previous one.

use crate::{
    crawlway,
    site::{Kind, Site},
    table::{BackgroundLoad, Row},
};
use crawlway_bench::measure::load;
use std::{fs, path::Path, time::Duration};

const STEPS: [usize; 3] = [10_000, 100_000, 1_000_000];

/// Timeout of a crawl of a million pages on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

/// Crawls all sizes in turn, repeatedly, so that other load affects all alike.
pub(crate) fn run(program: &Path, scratch: &Path, max: usize, runs: usize) -> anyhow::Result<()> {
    let sizes = STEPS.into_iter().filter(|size| *size < max).chain([max.max(1)]);
    let mut rows: Vec<(usize, Row)> = sizes.map(|pages| (pages, Row::crawlway(&pages.to_string()))).collect();
    for run in 1..=runs {
        for (pages, row) in &mut rows {
            let site = Site::start(Kind::Tiny, *pages)?;
            let data = scratch.join(&row.name);
            let background = BackgroundLoad::start(&site)?;
            let usage = crawlway::crawl(program, &site, &data, RUN_TIMEOUT)?;
            let background = background.cores(&usage, &site)?;
            fs::remove_dir_all(&data)?;
            eprintln!(
                "run {run} of {runs}: {pages} URLs in {:.2} s, {:.0} µs of CPU time each",
                usage.wall.as_secs_f64(),
                usage.cpu.as_secs_f64() * 1e6 / *pages as f64
            );
            row.add(&usage, background);
        }
    }
    let cost = |(pages, row): &(usize, Row)| row.cpu_per_thousand(*pages) * 1000.0;
    let first = rows.first().map_or(0.0, cost);
    println!(
        "tiny pages from loopback, {} concurrent requests, each crawl on a fresh data directory; median of {runs} runs\n",
        crate::IN_FLIGHT
    );
    println!(
        "{:>10} {:>10} {:>12} {:>10} {:>8} {:>14}",
        "URLs", "pages/s", "CPU µs/page", "peak MB", "ratio", "other load"
    );
    for size @ (pages, row) in &rows {
        println!(
            "{pages:>10} {:>10.0} {:>12.0} {:>10.0} {:>8.2} {:>14.2}",
            row.rate(*pages),
            cost(size),
            row.peak(),
            cost(size) / first,
            row.background()
        );
    }
    println!("\nratio: CPU time per page; load average: {}", load());
    Ok(())
}
