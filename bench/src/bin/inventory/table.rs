//! Results of all runs, as a table.

use crate::{load::Schedule, results::Results};
use crawlway_bench::{measure, median};
use std::{collections::BTreeMap, time::Duration};

/// Results of one server under one load.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    /// Kind of requests; rows of the same kind are compared.
    work: &'static str,
    pub(crate) schedule: Schedule,
    runs: Vec<Figures>,
    statuses: BTreeMap<u16, u64>,
    without_response: u64,
}

#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: f64,
    latencies: [f64; 4],
    cpu: f64,
    memory: f64,
}

impl Row {
    pub(crate) fn new(name: &'static str, work: &'static str, schedule: Schedule) -> Self {
        Self { name, work, schedule, runs: Vec::new(), statuses: BTreeMap::new(), without_response: 0 }
    }

    /// Adds a run, with the CPU time of the server and its memory afterwards.
    pub(crate) fn add(&mut self, mut results: Results, cpu: Duration, memory: u64) {
        let responses: u64 = results.statuses.values().sum();
        self.runs.push(Figures {
            rate: results.rate(),
            latencies: results.percentiles([0.5, 0.95, 0.99, 1.0]),
            cpu: cpu.as_secs_f64() * 1e6 / responses.max(1) as f64,
            memory: memory as f64 / 1e6,
        });
        self.without_response += results.failed + results.timed_out;
        for (status, count) in results.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
    }

    fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(&self.runs.iter().map(figure).collect::<Vec<_>>())
    }

    fn rate(&self) -> f64 {
        self.median(|run| run.rate)
    }

    fn responses(&self) -> String {
        let mut responses: Vec<String> =
            self.statuses.iter().map(|(status, count)| format!("{count} × {status}")).collect();
        if self.without_response > 0 {
            responses.push(format!("{} without response", self.without_response));
        }
        responses.join(", ")
    }
}

pub(crate) fn print(rows: &[Row], seconds: f64, runs: usize, connections: usize) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{seconds} s each over {connections} persistent connections; latency from the scheduled time; {cores} cores shared with the \
         load generator; medians of {runs} runs\n"
    );
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    println!(
        "{:<22} {:<width$} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10} {:>7} {:>6}  responses",
        "", "", "target/s", "actual/s", "p50 ms", "p95 ms", "p99 ms", "max ms", "CPU µs each", "MB", "ratio"
    );
    for row in rows {
        let target = match row.schedule {
            Schedule::Rate(rate) => format!("{rate:.0}"),
            Schedule::Closed => "max".to_owned(),
        };
        let [p50, p95, p99, max] = [0, 1, 2, 3].map(|at| row.median(|run| run.latencies[at]));
        println!(
            "{:<22} {:<width$} {target:>8} {:>9.0} {p50:>8.2} {p95:>8.2} {p99:>8.2} {max:>8.2} {:>10.1} {:>7.0} {:>6.2}  {}",
            row.work,
            row.name,
            row.rate(),
            row.median(|run| run.cpu),
            row.median(|run| run.memory),
            ratio(rows, row),
            row.responses()
        );
    }
    println!("\nratio: actual rate, to the baseline under the same load; load average: {}", measure::load());
}

/// Ratio of the rate to the baseline, which is the last row of the same kind under the same load.
fn ratio(rows: &[Row], row: &Row) -> f64 {
    let baseline = rows.iter().rev().find(|other| other.work == row.work && other.schedule == row.schedule);
    baseline.map_or(1.0, |baseline| row.rate() / baseline.rate())
}
