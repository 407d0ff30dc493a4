//! The embedded queue compared with a plain segment log; RabbitMQ and Kafka compared with their plain clients; a large backlog; many
//! groups.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod backlog;
mod baseline;
mod broker;
mod groups;
mod kafka;
mod rabbitmq;

use broker::Calls;
use clap::Parser;
use crawlway_bench::median;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Durable publish, receive and settle, compared with a baseline in alternating runs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Broker: the embedded queue, RabbitMQ or Kafka, which `cargo xtask bench` starts.
    #[arg(long, value_enum, default_value_t = Measured::Embedded)]
    broker: Measured,
    /// Messages per run: 200,000, or 40,000 on RabbitMQ and Kafka.
    #[arg(long)]
    messages: Option<usize>,
    /// Bytes per message.
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Directory of the files; the default is a temporary directory in the current one.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measures memory and recovery time with this many pending messages of 100 bytes instead.
    #[arg(long)]
    backlog: Option<usize>,
    /// Measures a receive with 1,000 and with 1,000,000 groups instead.
    #[arg(long)]
    groups: bool,
    /// Opens the directory of a backlog, in its own process.
    #[arg(long, hide = true)]
    open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measured {
    Embedded,
    Kafka,
    Rabbitmq,
}

/// Publishers and consumers, each with this many messages in flight.
const PUBLISHERS: usize = 4;
const IN_FLIGHT: usize = 64;
const CONSUMERS: usize = 2;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let scratch = match &arguments.dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("crawlway-bench-").tempdir_in(".")?),
    };
    let folder =
        arguments.dir.clone().or_else(|| scratch.as_ref().map(|s| s.path().to_owned())).unwrap_or_default();
    if arguments.open {
        return backlog::open(&folder);
    }
    if let Some(messages) = arguments.backlog {
        return backlog::run(&folder, messages);
    }
    if arguments.groups {
        return groups::run(&folder);
    }
    match arguments.broker {
        Measured::Embedded => compare(&arguments, &folder),
        Measured::Kafka => kafka::compare(&arguments, &folder),
        Measured::Rabbitmq => rabbitmq::compare(&arguments, &folder),
    }
}

fn compare(arguments: &Arguments, folder: &Path) -> anyhow::Result<()> {
    let Arguments { size, runs, .. } = *arguments;
    let messages = arguments.messages.unwrap_or(200_000);
    let mut rows = [
        Row::new("plain preallocated segment log"),
        Row::new("embedded queue, 64 per call"),
        Row::new("embedded queue, 64 concurrent calls of 1"),
    ];
    for run in 1..=runs {
        let times = [
            baseline::run(&folder.join(format!("baseline-{run}")), messages, size)?,
            broker::run(&folder.join(format!("batches-{run}")), messages, size, Calls::Batches)?,
            broker::run(&folder.join(format!("singles-{run}")), messages, size, Calls::Singles)?,
        ];
        rows.iter_mut().zip(times).for_each(|(row, time)| row.times.push(time));
        eprintln!("run {run} of {runs} done");
    }
    println!("one fdatasync takes {:.0} µs", baseline::fdatasync(folder)?.as_secs_f64() * 1e6);
    print_table(&rows, messages, size, runs);
    Ok(())
}

/// Implementation with the times of its runs.
struct Row {
    name: &'static str,
    times: Vec<Duration>,
}

impl Row {
    fn new(name: &'static str) -> Self {
        Self { name, times: Vec::new() }
    }
}

/// Prints messages per second; the ratio is to the first row.
fn print_table(rows: &[Row], messages: usize, size: usize, runs: usize) {
    println!(
        "{messages} messages of {size} bytes, {PUBLISHERS} publishers with {IN_FLIGHT} in flight, {CONSUMERS} consumers; \
         publish, receive and settle; median of {runs} alternating runs\n"
    );
    println!("{:<44} {:>12} {:>8}", "", "messages/s", "ratio");
    let rate = |row: &Row| messages as f64 / median(&row.times).as_secs_f64();
    for row in rows {
        println!("{:<44} {:>12.0} {:>8.2}", row.name, rate(row), rate(row) / rate(&rows[0]));
    }
}
