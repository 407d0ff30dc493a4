//! The embedded queue beside a bare segment log that does the same writes; RabbitMQ beside its bare client and the embedded
//! queue; a large backlog; many groups.
#![allow(clippy::print_stdout, reason = "a benchmark's tables are its output")]

mod backlog;
mod bare;
mod groups;
mod ours;
mod rabbitmq;

use clap::Parser;
use std::{path::PathBuf, time::Duration};

/// Durable publish + receive + settle, ours and a bare log's, in alternating runs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which broker is measured: the embedded queue beside a bare log, or RabbitMQ beside its bare client and the embedded
    /// queue. `cargo xtask bench` starts a RabbitMQ for it.
    #[arg(long, value_enum, default_value_t = Measured::Embedded)]
    broker: Measured,
    /// Messages per run; 200,000, or 40,000 on RabbitMQ, unless told otherwise.
    #[arg(long)]
    messages: Option<usize>,
    /// Bytes per message.
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Runs of each; the median counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Where to put the files; a temporary folder on the current disk otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measures memory and opening time with this many waiting messages of 100 bytes instead.
    #[arg(long)]
    backlog: Option<usize>,
    /// Measures a receive with 1,000 and with 1,000,000 groups instead.
    #[arg(long)]
    groups: bool,
    /// Only opens the directory and says how long that took: the backlog's second half, in a process of its own.
    #[arg(long, hide = true)]
    open: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measured {
    Embedded,
    Rabbitmq,
}

/// Publishers, each with this many messages in flight, and consumers that take as many at a time.
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
        return backlog::run(&folder, messages, arguments.json);
    }
    if arguments.groups {
        return groups::run(&folder, arguments.json);
    }
    match arguments.broker {
        Measured::Embedded => side_by_side(&arguments, &folder),
        Measured::Rabbitmq => rabbitmq::side_by_side(&arguments, &folder),
    }
}

fn side_by_side(arguments: &Arguments, folder: &std::path::Path) -> anyhow::Result<()> {
    let Arguments { size, runs, .. } = *arguments;
    let messages = arguments.messages.unwrap_or(200_000);
    let mut bare = Vec::new();
    let mut batches = Vec::new();
    let mut singles = Vec::new();
    for run in 0..runs {
        bare.push(bare::run(&folder.join(format!("bare-{run}")), messages, size)?);
        batches.push(ours::run(
            &folder.join(format!("batches-{run}")),
            messages,
            size,
            ours::Calls::Batches,
        )?);
        singles.push(ours::run(
            &folder.join(format!("singles-{run}")),
            messages,
            size,
            ours::Calls::Singles,
        )?);
        eprintln!("run {} of {runs} done", run + 1);
    }
    let rate = |times: &mut Vec<Duration>| median_rate(messages, times);
    let (bare, batches, singles) = (rate(&mut bare), rate(&mut batches), rate(&mut singles));
    let sync = bare::fdatasync(folder)?;
    if arguments.json {
        let rows = serde_json::json!({
            "messages": messages, "size": size, "runs": runs, "fdatasync_us": sync.as_secs_f64() * 1e6,
            "bare_per_s": bare, "batches_per_s": batches, "singles_per_s": singles,
            "batches_ratio": batches / bare, "singles_ratio": singles / bare,
        });
        println!("{rows:#}");
        return Ok(());
    }
    println!(
        "{messages} messages of {size} bytes, {PUBLISHERS} publishers with {IN_FLIGHT} in flight, {CONSUMERS} consumers; \
         publish + receive + settle; median of {runs} alternating runs; one fdatasync takes {:.0} µs here\n",
        sync.as_secs_f64() * 1e6
    );
    println!("{:<44} {:>12} {:>8}", "", "messages/s", "ratio");
    println!("{:<44} {bare:>12.0} {:>8.2}", "bare preallocated segment log", 1.0);
    println!("{:<44} {batches:>12.0} {:>8.2}", "embedded queue, 64 a call", batches / bare);
    println!("{:<44} {singles:>12.0} {:>8.2}", "embedded queue, 64 concurrent calls of 1", singles / bare);
    Ok(())
}

/// Messages per second of the run in the middle.
fn median_rate(messages: usize, times: &mut [Duration]) -> f64 {
    times.sort();
    messages as f64 / times[times.len() / 2].as_secs_f64()
}
