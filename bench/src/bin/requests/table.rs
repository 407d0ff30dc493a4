//! Results of all runs, as a table.

use crawlway_bench::{measure, median, percentiles};
use std::time::Duration;

/// Results of one deployment.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    /// Percentiles of the latency in milliseconds, and CPU time per request in milliseconds, of each run.
    runs: Vec<([f64; 4], f64)>,
    requests: usize,
}

impl Row {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, runs: Vec::new(), requests: 0 }
    }

    /// Adds a run, with the CPU time of its processes.
    pub(crate) fn add(&mut self, mut latencies: Vec<u32>, cpu: Duration) {
        self.requests += latencies.len();
        let cpu = cpu.as_secs_f64() * 1e3 / latencies.len().max(1) as f64;
        self.runs.push((percentiles(&mut latencies, [0.5, 0.95, 0.99, 1.0]), cpu));
    }

    fn latency(&self, place: usize) -> f64 {
        median(&self.runs.iter().map(|(latencies, _)| latencies[place]).collect::<Vec<_>>())
    }

    fn cpu(&self) -> f64 {
        median(&self.runs.iter().map(|(_, cpu)| *cpu).collect::<Vec<_>>())
    }
}

/// Prints the rows; ratios are to the first.
pub(crate) fn print(rows: &[Row], rate: f64, seconds: f64, runs: usize) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{rate} requests per s for {seconds} s each; POST to completed, from the scheduled time; {cores} cores shared with client, page \
         server, Kafka and Redis; medians of {runs} alternating runs\n"
    );
    println!(
        "{:<30} {:>9} {:>8} {:>8} {:>8} {:>8} {:>11} {:>7} {:>7} {:>7}",
        "", "completed", "p50 ms", "p95 ms", "p99 ms", "max ms", "CPU ms each", "p50", "p95", "p99"
    );
    for row in rows {
        let [p50, p95, p99, max] = [0, 1, 2, 3].map(|place| row.latency(place));
        let ratio = |place: usize| row.latency(place) / rows[0].latency(place);
        println!(
            "{:<30} {:>9} {p50:>8.1} {p95:>8.1} {p99:>8.1} {max:>8.1} {:>11.2} {:>7.2} {:>7.2} {:>7.2}",
            row.name,
            row.requests,
            row.cpu(),
            ratio(0),
            ratio(1),
            ratio(2)
        );
    }
    println!("\nlast columns: latency, as a multiple of the first row; load average: {}", measure::load());
}
