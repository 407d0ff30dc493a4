//! What a URL costs when there are many: crawls of tiny pages, each ten times as large as the one before.

use crate::{
    ours,
    site::{Kind, Site},
    table::{Others, load},
};
use serde_json::json;
use std::{fs, path::Path, time::Duration};

const STEPS: [usize; 3] = [10_000, 100_000, 1_000_000];

/// A million tiny pages take a while on a busy machine.
const LIMIT: Duration = Duration::from_secs(4 * 3600);

pub(crate) fn run(program: &Path, scratch: &Path, most: usize, as_json: bool) -> anyhow::Result<()> {
    let mut sizes: Vec<usize> = STEPS.into_iter().filter(|size| *size < most).collect();
    sizes.push(most.max(1));
    if !as_json {
        println!(
            "tiny pages from loopback, {} in flight, each crawl on a fresh data directory\n",
            crate::IN_FLIGHT
        );
        println!(
            "{:>10} {:>10} {:>12} {:>10} {:>8} {:>14}",
            "URLs", "pages/s", "CPU µs/page", "peak MB", "ratio", "cores, others"
        );
    }
    let mut first = None;
    let mut rows = Vec::new();
    for pages in sizes {
        let site = Site::start(Kind::Tiny, pages)?;
        let data = scratch.join(pages.to_string());
        let others = Others::watch(&site)?;
        let spent = ours::crawl(program, &site, &data, LIMIT)?;
        let others = others.cores(&spent, &site)?;
        fs::remove_dir_all(&data)?;
        let rate = pages as f64 / spent.wall.as_secs_f64();
        let cost = spent.cpu.as_secs_f64() * 1e6 / pages as f64;
        let peak = spent.peak as f64 / 1e6;
        let ratio = cost / *first.get_or_insert(cost);
        if !as_json {
            println!("{pages:>10} {rate:>10.0} {cost:>12.0} {peak:>10.0} {ratio:>8.2} {others:>14.2}");
        }
        rows.push(json!({
            "urls": pages, "pages_per_s": rate, "cpu_us_per_page": cost, "peak_mb": peak, "ratio": ratio,
            "cores_of_others": others,
        }));
    }
    if as_json {
        println!("{:#}", json!({ "in_flight": crate::IN_FLIGHT, "rows": rows, "load": load() }));
    } else {
        println!("\nratio: of the computing time per page; load average: {}", load());
    }
    Ok(())
}
