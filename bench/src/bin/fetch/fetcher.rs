//! The fetcher as the flows use it: gate and guard on, every page in a request of its own.

use anyhow::ensure;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::{Fetcher, Guard, Identity, Keep, Request, Setup, Waiting, resolve::FixedNames};
use crawlway_store::gate;
use crawlway_store_embedded::{EmbeddedGate, GateOptions};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A fetcher for which `*.test` is the server, and which may dial that.
pub(crate) fn fetcher(server: SocketAddr, keep: Keep) -> anyhow::Result<Fetcher> {
    let mut setup = Setup::new(Arc::new(EmbeddedGate::open(GateOptions::default())?));
    setup.guard = Guard::new(vec![format!("{}/32:{}", server.ip(), server.port()).parse()?]);
    setup.resolver = Arc::new(FixedNames { names: [("*.test".to_owned(), vec![server.ip()])].into() });
    setup.keep = keep;
    Ok(Fetcher::new(setup)?)
}

/// A request without a gap, so that what is measured is the fetcher and not its manners.
pub(crate) fn request(url: NormalUrl, at_a_time: usize, identity: &Arc<Identity>) -> Request {
    let in_flight = u32::try_from(at_a_time).unwrap_or(u32::MAX);
    Request {
        pace: gate::Limits { in_flight, gap: Duration::ZERO },
        waiting: Waiting::Here { at_most: Duration::from_secs(60) },
        robots: false,
        identity: identity.clone(),
        ..Request::new(url)
    }
}

pub(crate) async fn run(
    server: SocketAddr,
    requests: usize,
    size: usize,
    at_a_time: usize,
    robots: bool,
) -> anyhow::Result<Duration> {
    let keep = Keep { per_host: at_a_time, ..Keep::default() };
    let fetcher = Arc::new(fetcher(server, keep)?);
    let identity = Arc::new(Identity::default());
    let next = Arc::new(AtomicUsize::new(0));
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
                    let url = format!("http://site.test:{}/page/{number}", server.port());
                    let url = normalise(&url, &UrlOptions::default())?;
                    let request = Request { robots, ..request(url, at_a_time, &identity) };
                    let fetched = fetcher.fetch(&request).await?;
                    ensure!(fetched.body.len() == size, "a page is missing");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(started.elapsed())
}
