//! The fetcher as the flows use it, with rate limiter and SSRF guard.

use crate::{join_all, spawn_requests};
use anyhow::ensure;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::{
    Fetcher, FetcherConfig, Identity, OnRateLimit, PoolLimits, Request, SsrfGuard, resolve::StaticNames,
};
use crawlway_store::rate_limiter;
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

/// Fetcher that resolves `*.test` to the server, and may connect to it.
pub(crate) fn fetcher(server: SocketAddr, keep: PoolLimits) -> anyhow::Result<Fetcher> {
    let mut setup = FetcherConfig::new(Arc::new(EmbeddedRateLimiter::open(RateLimiterOptions::default())?));
    setup.ssrf_guard = SsrfGuard::new(vec![format!("{}/32:{}", server.ip(), server.port()).parse()?]);
    setup.resolver = Arc::new(StaticNames { names: [("*.test".to_owned(), vec![server.ip()])].into() });
    setup.pool_limits = keep;
    Ok(Fetcher::new(setup)?)
}

/// Request without a minimum delay.
pub(crate) fn request(url: NormalUrl, concurrency: usize, identity: &Arc<Identity>) -> Request {
    let in_flight = u32::try_from(concurrency).unwrap_or(u32::MAX);
    Request {
        rate_limit: rate_limiter::RateLimits { concurrency: in_flight, min_delay: Duration::ZERO },
        on_rate_limit: OnRateLimit::Wait { max_wait: Duration::from_secs(60) },
        obey_robots: false,
        identity: identity.clone(),
        ..Request::new(url)
    }
}

pub(crate) async fn run(
    server: SocketAddr,
    requests: usize,
    size: usize,
    concurrency: usize,
    robots: bool,
) -> anyhow::Result<Duration> {
    let keep = PoolLimits { per_host: concurrency, ..PoolLimits::default() };
    let fetcher = Arc::new(fetcher(server, keep)?);
    let identity = Arc::new(Identity::default());
    let started = Instant::now();
    join_all(spawn_requests(requests, concurrency, &Arc::default(), move |number| {
        let (fetcher, identity) = (fetcher.clone(), identity.clone());
        async move {
            let url = format!("http://site.test:{}/page/{number}", server.port());
            let url = normalise(&url, &UrlOptions::default())?;
            let request = Request { obey_robots: robots, ..request(url, concurrency, &identity) };
            let fetched = fetcher.fetch(&request).await?;
            ensure!(fetched.body.len() == size, "a page is incomplete");
            Ok(())
        }
    }))
    .await?;
    Ok(started.elapsed())
}
