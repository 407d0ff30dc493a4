//! The figures of all runs, and the table and the JSON that are made of them.

use crate::{load::Pace, outcome::Outcome};
use crawlway_bench::{measured, median};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// One server under one load, and what its runs took.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    /// What is asked: rows of one kind are compared.
    work: &'static str,
    pub(crate) pace: Pace,
    runs: Vec<Figures>,
    statuses: BTreeMap<u16, u64>,
    unanswered: u64,
}

#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: f64,
    times: [f64; 4],
    cpu: f64,
    memory: f64,
}

impl Row {
    pub(crate) fn new(name: &'static str, work: &'static str, pace: Pace) -> Self {
        Self { name, work, pace, runs: Vec::new(), statuses: BTreeMap::new(), unanswered: 0 }
    }

    /// Takes a run, with what the server computed and the memory that it has afterwards.
    pub(crate) fn add(&mut self, mut outcome: Outcome, cpu: Duration, memory: u64) {
        let answered: u64 = outcome.statuses.values().sum();
        self.runs.push(Figures {
            rate: outcome.rate(),
            times: outcome.within([0.5, 0.95, 0.99, 1.0]),
            cpu: cpu.as_secs_f64() * 1e6 / answered.max(1) as f64,
            memory: memory as f64 / 1e6,
        });
        self.unanswered += outcome.broken + outcome.timed_out;
        for (status, count) in outcome.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
    }

    fn median(&self, figure: impl Fn(&Figures) -> f64) -> f64 {
        median(&self.runs.iter().map(figure).collect::<Vec<_>>())
    }

    fn rate(&self) -> f64 {
        self.median(|run| run.rate)
    }

    fn asked(&self) -> Option<f64> {
        match self.pace {
            Pace::Rate(rate) => Some(rate),
            Pace::Closed => None,
        }
    }

    fn answers(&self) -> String {
        let mut answers: Vec<String> =
            self.statuses.iter().map(|(status, count)| format!("{count} × {status}")).collect();
        if self.unanswered > 0 {
            answers.push(format!("{} unanswered", self.unanswered));
        }
        answers.join(", ")
    }
}

pub(crate) fn print(rows: &[Row], seconds: f64, runs: usize, connections: usize) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{seconds} s each over {connections} kept connections; times from when a request was due; {cores} cores with the load on \
         them; medians of {runs} runs\n"
    );
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    println!(
        "{:<22} {:<width$} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>10} {:>7} {:>6}  answers",
        "", "", "asked/s", "reached/s", "p50 ms", "p95 ms", "p99 ms", "max ms", "CPU µs each", "MB", "ratio"
    );
    for row in rows {
        let asked = row.asked().map_or("most".to_owned(), |rate| format!("{rate:.0}"));
        let [p50, p95, p99, max] = [0, 1, 2, 3].map(|at| row.median(|run| run.times[at]));
        println!(
            "{:<22} {:<width$} {asked:>8} {:>9.0} {p50:>8.2} {p95:>8.2} {p99:>8.2} {max:>8.2} {:>10.1} {:>7.0} {:>6.2}  {}",
            row.work,
            row.name,
            row.rate(),
            row.median(|run| run.cpu),
            row.median(|run| run.memory),
            ratio(rows, row),
            row.answers()
        );
    }
    println!(
        "\nratio: of the rate reached, to the bare server under the same load; load average: {}",
        measured::load()
    );
}

pub(crate) fn json(rows: &[Row], seconds: f64, runs: usize, connections: usize) -> Value {
    let told: Vec<Value> = rows
        .iter()
        .map(|row| {
            let [p50, p95, p99, max] = [0, 1, 2, 3].map(|at| row.median(|run| run.times[at]));
            json!({
                "work": row.work, "name": row.name, "asked_per_s": row.asked(), "reached_per_s": row.rate(),
                "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": max, "cpu_us_each": row.median(|run| run.cpu),
                "memory_mb": row.median(|run| run.memory), "ratio": ratio(rows, row), "statuses": row.statuses,
                "unanswered": row.unanswered,
            })
        })
        .collect();
    json!({ "seconds": seconds, "runs": runs, "connections": connections, "rows": told, "load": measured::load() })
}

/// How fast it is beside the last one of those that did the same under the same load, which is the bare one.
fn ratio(rows: &[Row], row: &Row) -> f64 {
    let bare = rows.iter().rev().find(|other| other.work == row.work && other.pace == row.pace);
    bare.map_or(1.0, |bare| row.rate() / bare.rate())
}
