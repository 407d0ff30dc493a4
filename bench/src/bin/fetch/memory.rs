//! Memory over many requests to many hosts, which must not grow with either.

use crate::{fetcher, join_all, spawn_requests};
use anyhow::Context;
use crawlway_bench::measure;
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_fetch::{Identity, PoolLimits, Request};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(crate) async fn run(
    server: SocketAddr,
    requests: usize,
    hosts: usize,
    concurrency: usize,
) -> anyhow::Result<()> {
    let fetcher = Arc::new(fetcher::fetcher(server, PoolLimits::default())?);
    let identity = Arc::new(Identity::default());
    let next = Arc::new(AtomicUsize::new(0));
    println!("{requests} requests to {hosts} hosts, {concurrency} concurrent, with robots.txt\n");
    println!("{:>10} {:>10} {:>12} {:>18}", "seconds", "requests", "memory MiB", "idle connections");
    let started = Instant::now();
    let shared = fetcher.clone();
    let tasks = spawn_requests(requests, concurrency, &next, move |number| {
        let (fetcher, identity) = (shared.clone(), identity.clone());
        async move {
            let host = number % hosts;
            let url = format!("http://host-{host}.test:{}/page/{number}", server.port());
            let url = normalise(&url, &UrlOptions::default())?;
            let request = Request { obey_robots: true, ..fetcher::request(url, concurrency, &identity) };
            fetcher.fetch(&request).await?;
            Ok(())
        }
    });
    let step = (requests / 20).max(1);
    let mut due = step;
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        let done = next.load(Ordering::Relaxed).min(requests);
        if done >= due {
            due = done + step;
            row(started, done, fetcher.idle_connections())?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    join_all(tasks).await?;
    row(started, requests, fetcher.idle_connections())
}

fn row(started: Instant, done: usize, idle: usize) -> anyhow::Result<()> {
    let bytes = measure::memory(rustix::process::getpid()).context("reading the memory of this process")?;
    let memory = bytes as f64 / f64::from(1 << 20);
    println!("{:>10.1} {done:>10} {memory:>12.1} {idle:>18}", started.elapsed().as_secs_f64());
    Ok(())
}
