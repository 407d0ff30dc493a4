//! Results of all runs, as a table.

use crate::site::Site;
use crawlway_bench::{
    measure::{self, Usage, load},
    median,
};
use std::time::{Duration, Instant};

/// Results of one crawler.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) is_crawlway: bool,
    walls: Vec<Duration>,
    cpus: Vec<Duration>,
    peaks: Vec<u64>,
    background: Vec<f64>,
}

impl Row {
    pub(crate) fn crawlway(name: &str) -> Self {
        Self { is_crawlway: true, ..Self::peer(name) }
    }

    pub(crate) fn peer(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, is_crawlway: false, walls: vec![], cpus: vec![], peaks: vec![], background: vec![] }
    }

    pub(crate) fn add(&mut self, usage: &Usage, background: f64) {
        self.walls.push(usage.wall);
        self.cpus.push(usage.cpu);
        self.peaks.push(usage.peak);
        self.background.push(background);
    }

    /// Median of pages per second.
    pub(crate) fn rate(&self, pages: usize) -> f64 {
        pages as f64 / median(&self.walls).as_secs_f64()
    }

    /// Median of CPU seconds per 1,000 pages.
    pub(crate) fn cpu_per_thousand(&self, pages: usize) -> f64 {
        median(&self.cpus).as_secs_f64() / pages as f64 * 1000.0
    }

    /// Peak memory of all runs in MB.
    pub(crate) fn peak(&self) -> f64 {
        self.peaks.iter().max().map_or(0.0, |peak| *peak as f64 / 1e6)
    }

    /// Mean number of cores used by other load.
    pub(crate) fn background(&self) -> f64 {
        self.background.iter().sum::<f64>() / self.background.len().max(1) as f64
    }
}

pub(crate) fn print(rows: &[Row], pages: usize, runs: usize, background: &str) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{pages} pages from loopback, with robots.txt, no minimum delay, {} concurrent requests; {cores} cores shared with the \
         server; median of {runs} runs\n",
        crate::IN_FLIGHT
    );
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    println!(
        "{:<width$} {:>9} {:>16} {:>12} {:>8} {:>30}",
        "", "pages/s", "CPU s/1000 pages", "peak MB", "ratio", background
    );
    let first = rows.first().map_or(0.0, |row| row.rate(pages));
    for row in rows {
        println!(
            "{:<width$} {:>9.0} {:>16.2} {:>12.0} {:>8.2} {:>30.2}",
            row.name,
            row.rate(pages),
            row.cpu_per_thousand(pages),
            row.peak(),
            row.rate(pages) / first,
            row.background()
        );
    }
    println!("\nload average: {}", load());
}

/// Other load of the machine during a run.
#[derive(Debug)]
pub(crate) struct BackgroundLoad {
    since: Instant,
    machine: Duration,
    server: Duration,
}

impl BackgroundLoad {
    pub(crate) fn start(site: &Site) -> anyhow::Result<Self> {
        Ok(Self { since: Instant::now(), machine: measure::machine_cpu()?, server: site.cpu()? })
    }

    /// Mean number of cores used by other processes than the run and its server.
    pub(crate) fn cores(&self, usage: &Usage, site: &Site) -> anyhow::Result<f64> {
        let all = (measure::machine_cpu()? - self.machine).as_secs_f64();
        let own = (site.cpu()? - self.server + usage.cpu).as_secs_f64();
        Ok((all - own).max(0.0) / self.since.elapsed().as_secs_f64())
    }
}
