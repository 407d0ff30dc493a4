//! Fetcher for tests: loopback allowed, no minimum delay, short timeouts.

use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_fetch::{
    FetchCode, FetchError, FetchResponse, Fetcher, FetcherConfig, Limits, OnRateLimit, Request, SsrfGuard,
    resolve::StaticNames,
};
use crawlway_store::rate_limiter;
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum duration of a fetch with these limits, whatever the server does.
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(10);

pub(crate) fn limits() -> Limits {
    Limits {
        connect: Duration::from_secs(2),
        first_byte: Duration::from_secs(1),
        total: Duration::from_secs(3),
        body_bytes: 1 << 20,
        decoded_bytes: 4 << 20,
        ..Limits::default()
    }
}

pub(crate) fn setup() -> FetcherConfig {
    let rate_limiter = EmbeddedRateLimiter::open(RateLimiterOptions::default()).expect("a rate limiter");
    let mut setup = FetcherConfig::new(Arc::new(rate_limiter));
    setup.ssrf_guard = SsrfGuard::new(vec!["127.0.0.0/8".parse().expect("a range")]);
    let names = [("*.test".to_owned(), vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])].into();
    setup.resolver = Arc::new(StaticNames { names });
    setup
}

pub(crate) fn fetcher() -> Fetcher {
    Fetcher::new(setup()).expect("a fetcher")
}

pub(crate) fn normal(url: &str) -> NormalUrl {
    normalise(url, &UrlOptions::default()).expect("a URL")
}

pub(crate) fn request(url: &str) -> Request {
    Request {
        obey_robots: false,
        limits: limits(),
        rate_limit: rate_limiter::RateLimits { concurrency: 100, min_delay: Duration::ZERO },
        on_rate_limit: OnRateLimit::Wait { max_wait: Duration::from_secs(30) },
        ..Request::new(normal(url))
    }
}

/// Fetches within the maximum duration.
pub(crate) async fn fetch(url: &str) -> Result<FetchResponse, FetchError> {
    within(&fetcher(), &request(url)).await
}

pub(crate) async fn within(fetcher: &Fetcher, request: &Request) -> Result<FetchResponse, FetchError> {
    let started = Instant::now();
    let result = tokio::time::timeout(MAX_DURATION, fetcher.fetch(request)).await;
    result.unwrap_or_else(|_| panic!("{} took {:?}", request.url.as_str(), started.elapsed()))
}

/// Expects this error.
#[track_caller]
pub(crate) fn expect(result: Result<FetchResponse, FetchError>, code: FetchCode) -> FetchError {
    match result {
        Err(error) => {
            assert_eq!(error.code, code, "{error}");
            error
        }
        Ok(fetched) => panic!("expected {code}, got {} with {} bytes", fetched.status, fetched.body.len()),
    }
}

/// Expects this error where the success is no page.
#[track_caller]
pub(crate) fn expect_error<T: std::fmt::Debug>(result: Result<T, FetchError>, code: FetchCode) -> FetchError {
    let error = result.expect_err("a failure");
    assert_eq!(error.code, code, "{error}");
    error
}
