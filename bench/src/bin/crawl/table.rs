//! The figures of all runs, and the table and the JSON that are made of them.

use crate::site::Site;
use crawlway_bench::{
    measured::{self, Spent, load},
    median,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// One crawler, and what its runs took.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) ours: bool,
    walls: Vec<Duration>,
    cpus: Vec<Duration>,
    peaks: Vec<u64>,
    others: Vec<f64>,
}

impl Row {
    pub(crate) fn ours(name: &str) -> Self {
        Self { ours: true, ..Self::peer(name) }
    }

    pub(crate) fn peer(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ours: false, walls: vec![], cpus: vec![], peaks: vec![], others: vec![] }
    }

    pub(crate) fn add(&mut self, spent: &Spent, others: f64) {
        self.walls.push(spent.wall);
        self.cpus.push(spent.cpu);
        self.peaks.push(spent.peak);
        self.others.push(others);
    }

    /// Pages per second, the median.
    pub(crate) fn rate(&self, pages: usize) -> f64 {
        pages as f64 / median(&self.walls).as_secs_f64()
    }

    /// Seconds of computing for 1,000 pages, the median.
    pub(crate) fn cpu_per_thousand(&self, pages: usize) -> f64 {
        median(&self.cpus).as_secs_f64() / pages as f64 * 1000.0
    }

    /// The most memory of all runs, in MB.
    pub(crate) fn peak(&self) -> f64 {
        self.peaks.iter().max().map_or(0.0, |peak| *peak as f64 / 1e6)
    }

    /// How many cores were busy with other things, on average.
    pub(crate) fn others(&self) -> f64 {
        self.others.iter().sum::<f64>() / self.others.len().max(1) as f64
    }
}

pub(crate) fn print(rows: &[Row], pages: usize, runs: usize, others: &str) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{pages} pages from loopback, robots.txt asked, no gap, {} in flight; {cores} cores with the server on them; median \
         of {runs} runs\n",
        crate::IN_FLIGHT
    );
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    println!(
        "{:<width$} {:>9} {:>16} {:>12} {:>8} {:>26}",
        "", "pages/s", "CPU s/1000 pages", "peak MB", "ratio", others
    );
    let first = rows.first().map_or(0.0, |row| row.rate(pages));
    for row in rows {
        println!(
            "{:<width$} {:>9.0} {:>16.2} {:>12.0} {:>8.2} {:>26.2}",
            row.name,
            row.rate(pages),
            row.cpu_per_thousand(pages),
            row.peak(),
            row.rate(pages) / first,
            row.others()
        );
    }
    println!("\nload average: {}", load());
}

pub(crate) fn json(rows: &[Row], pages: usize, runs: usize) -> Value {
    let first = rows.first().map_or(0.0, |row| row.rate(pages));
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name, "pages_per_s": row.rate(pages), "cpu_s_per_1000_pages": row.cpu_per_thousand(pages),
                "peak_mb": row.peak(), "ratio": row.rate(pages) / first, "cores_of_others": row.others(),
            })
        })
        .collect();
    json!({ "pages": pages, "runs": runs, "in_flight": crate::IN_FLIGHT, "rows": rows, "load": load() })
}

/// What else the machine computes during a run.
#[derive(Debug)]
pub(crate) struct Others {
    since: Instant,
    machine: Duration,
    server: Duration,
}

impl Others {
    pub(crate) fn watch(site: &Site) -> anyhow::Result<Self> {
        Ok(Self { since: Instant::now(), machine: measured::machine_cpu()?, server: site.cpu()? })
    }

    /// How many cores were busy with other things than this run and its server, on average.
    pub(crate) fn cores(&self, spent: &Spent, site: &Site) -> anyhow::Result<f64> {
        let all = (measured::machine_cpu()? - self.machine).as_secs_f64();
        let ours = (site.cpu()? - self.server + spent.cpu).as_secs_f64();
        Ok((all - ours).max(0.0) / self.since.elapsed().as_secs_f64())
    }
}
