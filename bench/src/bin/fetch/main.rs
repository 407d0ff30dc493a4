//! The fetcher, with rate limiter and SSRF guard, compared with a plain hyper-util client; and its memory over many hosts.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod baseline;
mod fetcher;
mod memory;

use clap::Parser;
use crawlway_bench::median;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;

/// Fetches pages from a server on loopback, with the fetcher and with a plain client in alternating runs.
#[derive(Debug, Parser)]
struct Arguments {
    /// Requests per run: 50,000, or 1,000,000 for the memory.
    #[arg(long)]
    requests: Option<usize>,
    /// Bytes per page.
    #[arg(long, default_value_t = 10_000)]
    size: usize,
    /// Concurrent requests.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// Runs of each; the median counts. Many short ones, since the load of the machine varies.
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// Measures memory over many hosts instead.
    #[arg(long)]
    memory: bool,
    /// Hosts of the memory run.
    #[arg(long, default_value_t = 50_000)]
    hosts: usize,
}

fn main() -> anyhow::Result<()> {
    let Arguments { requests, size, concurrency, runs, memory, hosts } = Arguments::parse();
    let server = crawlway_bench::page_server::serve(size)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if memory {
        return runtime.block_on(memory::run(server, requests.unwrap_or(1_000_000), hosts, concurrency));
    }
    let requests = requests.unwrap_or(50_000);
    let (mut baseline, mut plain, mut with_robots) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=runs {
        baseline.push(runtime.block_on(baseline::run(server, requests, size, concurrency))?);
        plain.push(runtime.block_on(fetcher::run(server, requests, size, concurrency, false))?);
        with_robots.push(runtime.block_on(fetcher::run(server, requests, size, concurrency, true))?);
        eprintln!("run {run} of {runs} done");
    }
    println!(
        "{requests} pages of {size} bytes from loopback, {concurrency} concurrent requests on persistent connections; the server \
         has its own thread; median of {runs} alternating runs\n"
    );
    println!("{:<44} {:>12} {:>8}", "", "requests/s", "ratio");
    let rate = |times: &[Duration]| requests as f64 / median(times).as_secs_f64();
    let row = |name: &str, times: &[Duration]| {
        println!("{name:<44} {:>12.0} {:>8.2}", rate(times), rate(times) / rate(&baseline));
    };
    row("plain hyper-util client", &baseline);
    row("fetcher, rate limiter and SSRF guard on", &plain);
    row("fetcher, with robots.txt", &with_robots);
    Ok(())
}

/// Sends numbered requests from concurrent tasks.
fn spawn_requests<F: Future<Output = anyhow::Result<()>> + Send + 'static>(
    requests: usize,
    concurrency: usize,
    next: &Arc<AtomicUsize>,
    request: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Vec<JoinHandle<anyhow::Result<()>>> {
    (0..concurrency)
        .map(|_| {
            let (next, request) = (next.clone(), request.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return Ok(());
                    }
                    request(number).await?;
                }
            })
        })
        .collect()
}

/// Waits for all tasks.
async fn join_all(tasks: Vec<JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    for task in tasks {
        task.await??;
    }
    Ok(())
}
