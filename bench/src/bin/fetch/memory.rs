//! Memory over many requests to many hosts: it must not grow with either.

use crate::ours;
use crawlway_content::{UrlOptions, url::normalise};
use crawlway_fetch::{Identity, Keep, Request};
use std::{
    fs,
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
    at_a_time: usize,
) -> anyhow::Result<()> {
    let fetcher = Arc::new(ours::fetcher(server, Keep::default())?);
    let identity = Arc::new(Identity::default());
    let next = Arc::new(AtomicUsize::new(0));
    println!("{requests} requests over {hosts} hosts, {at_a_time} at a time, robots.txt asked\n");
    println!("{:>10} {:>10} {:>12} {:>14}", "seconds", "requests", "memory MiB", "idle kept");
    let started = Instant::now();
    let tasks: Vec<_> = (0..at_a_time)
        .map(|_| {
            let (fetcher, next, identity) = (fetcher.clone(), next.clone(), identity.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        return anyhow::Ok(());
                    }
                    let host = number % hosts;
                    let url = format!("http://host-{host}.test:{}/page/{number}", server.port());
                    let url = normalise(&url, &UrlOptions::default())?;
                    let request = Request { robots: true, ..ours::request(url, at_a_time, &identity) };
                    fetcher.fetch(&request).await?;
                }
            })
        })
        .collect();
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
    for task in tasks {
        task.await??;
    }
    row(started, requests, fetcher.idle_connections())
}

fn row(started: Instant, done: usize, idle: usize) -> anyhow::Result<()> {
    let statm = fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = statm.split_whitespace().nth(1).unwrap_or("0").parse()?;
    let memory = pages * rustix::param::page_size() as f64 / f64::from(1 << 20);
    println!("{:>10.1} {done:>10} {memory:>12.1} {idle:>14}", started.elapsed().as_secs_f64());
    Ok(())
}
