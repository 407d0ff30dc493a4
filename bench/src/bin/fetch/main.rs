//! The fetcher, gate and guard on, beside a bare hyper-util client; and its memory over many hosts.
#![allow(clippy::print_stdout, reason = "a benchmark's tables are its output")]

mod bare;
mod memory;
mod ours;

use clap::Parser;
use std::time::Duration;

/// Pages from a server on loopback, fetched by us and by a bare client, in alternating runs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Requests per run: 50,000, or 1,000,000 for the memory.
    #[arg(long)]
    requests: Option<usize>,
    /// Bytes per page.
    #[arg(long, default_value_t = 10_000)]
    size: usize,
    /// Requests at a time.
    #[arg(long, default_value_t = 64)]
    at_a_time: usize,
    /// Runs of each; the median counts. Many short ones, since neighbours come and go.
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// Measures memory over many hosts instead.
    #[arg(long)]
    memory: bool,
    /// The hosts of the memory run.
    #[arg(long, default_value_t = 50_000)]
    hosts: usize,
    /// Only ours, so that a profile has nothing else in it.
    #[arg(long)]
    only_ours: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = crawlway_bench::page::serve(arguments.size)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if arguments.memory {
        let requests = arguments.requests.unwrap_or(1_000_000);
        return runtime.block_on(memory::run(server, requests, arguments.hosts, arguments.at_a_time));
    }
    let Arguments { size, at_a_time, runs, .. } = arguments;
    let requests = arguments.requests.unwrap_or(50_000);
    let (mut bare, mut ours, mut with_robots) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        if !arguments.only_ours {
            bare.push(runtime.block_on(bare::run(server, requests, size, at_a_time))?);
        }
        ours.push(runtime.block_on(ours::run(server, requests, size, at_a_time, false))?);
        with_robots.push(runtime.block_on(ours::run(server, requests, size, at_a_time, true))?);
        eprintln!("run {} of {runs} done", run + 1);
    }
    let rate = |times: &mut Vec<Duration>| {
        times.sort();
        times.get(times.len() / 2).map_or(f64::NAN, |time| requests as f64 / time.as_secs_f64())
    };
    let (bare, ours, with_robots) = (rate(&mut bare), rate(&mut ours), rate(&mut with_robots));
    if arguments.json {
        let rows = serde_json::json!({
            "requests": requests, "size": size, "at_a_time": at_a_time, "runs": runs,
            "bare_per_s": bare, "ours_per_s": ours, "ours_with_robots_per_s": with_robots,
            "ratio": ours / bare, "ratio_with_robots": with_robots / bare,
        });
        println!("{rows:#}");
        return Ok(());
    }
    println!(
        "{requests} pages of {size} bytes from loopback, {at_a_time} at a time on kept connections; the server has a thread of \
         its own; median of {runs} alternating runs\n"
    );
    println!("{:<44} {:>12} {:>8}", "", "requests/s", "ratio");
    println!("{:<44} {bare:>12.0} {:>8.2}", "bare hyper-util client", 1.0);
    println!("{:<44} {ours:>12.0} {:>8.2}", "fetcher, gate and guard on", ours / bare);
    println!("{:<44} {with_robots:>12.0} {:>8.2}", "fetcher, robots.txt asked too", with_robots / bare);
    Ok(())
}
