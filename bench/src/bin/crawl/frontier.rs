//! What a URL costs when there are many: crawls of tiny pages, each ten times as large as the one before.

use crate::{
    ours,
    site::{Kind, Site},
    table::{Others, Row},
};
use crawlway_bench::measured::load;
use serde_json::json;
use std::{fs, path::Path, time::Duration};

const STEPS: [usize; 3] = [10_000, 100_000, 1_000_000];

/// A million tiny pages take a while on a busy machine.
const LIMIT: Duration = Duration::from_secs(4 * 3600);

/// Crawls of all sizes in turn, again and again, so that a machine that is faster at one time than at another is so for
/// all sizes.
pub(crate) fn run(
    program: &Path,
    scratch: &Path,
    most: usize,
    runs: usize,
    as_json: bool,
) -> anyhow::Result<()> {
    let sizes = STEPS.into_iter().filter(|size| *size < most).chain([most.max(1)]);
    let mut rows: Vec<(usize, Row)> = sizes.map(|pages| (pages, Row::ours(&pages.to_string()))).collect();
    for run in 1..=runs {
        for (pages, row) in &mut rows {
            let site = Site::start(Kind::Tiny, *pages)?;
            let data = scratch.join(&row.name);
            let others = Others::watch(&site)?;
            let spent = ours::crawl(program, &site, &data, LIMIT)?;
            let others = others.cores(&spent, &site)?;
            fs::remove_dir_all(&data)?;
            eprintln!(
                "run {run} of {runs}: {pages} URLs in {:.2} s, {:.0} µs of computing for each",
                spent.wall.as_secs_f64(),
                spent.cpu.as_secs_f64() * 1e6 / *pages as f64
            );
            row.add(&spent, others);
        }
    }
    let cost = |(pages, row): &(usize, Row)| row.cpu_per_thousand(*pages) * 1000.0;
    let first = rows.first().map_or(0.0, cost);
    if as_json {
        let rows = rows.iter().map(|size @ (pages, row)| {
            json!({
                "urls": pages, "pages_per_s": row.rate(*pages), "cpu_us_per_page": cost(size), "peak_mb": row.peak(),
                "ratio": cost(size) / first, "cores_of_others": row.others(),
            })
        });
        let rows: Vec<_> = rows.collect();
        println!(
            "{:#}",
            json!({ "in_flight": crate::IN_FLIGHT, "runs": runs, "rows": rows, "load": load() })
        );
        return Ok(());
    }
    println!(
        "tiny pages from loopback, {} in flight, each crawl on a fresh data directory; median of {runs} runs\n",
        crate::IN_FLIGHT
    );
    println!(
        "{:>10} {:>10} {:>12} {:>10} {:>8} {:>14}",
        "URLs", "pages/s", "CPU µs/page", "peak MB", "ratio", "cores, others"
    );
    for size @ (pages, row) in &rows {
        println!(
            "{pages:>10} {:>10.0} {:>12.0} {:>10.0} {:>8.2} {:>14.2}",
            row.rate(*pages),
            cost(size),
            row.peak(),
            cost(size) / first,
            row.others()
        );
    }
    println!("\nratio: of the computing time per page; load average: {}", load());
    Ok(())
}
