//! robots.txt through the fetcher: fetched once, through the rate limiter, obeyed, and closed while unreachable.

use crate::{
    recording::RecordingLimiter,
    server::{Server, page},
    setup::{expect, fetcher, request, setup, within},
};
use crawlway_fetch::{FetchCode, Fetcher, Identity, OnRateLimit, Request, SsrfGuard};
use crawlway_store::{Clock, ManualClock, Timestamp};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn obedient(url: &str) -> Request {
    Request { obey_robots: true, ..request(url) }
}

/// Site with this robots.txt, and a counter of its requests.
async fn site(robots: Vec<u8>) -> (Server, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = Server::by_path(move |path| {
        if path == "/robots.txt" {
            count.fetch_add(1, Ordering::SeqCst);
            return robots.clone();
        }
        page("200 OK", "", path.as_bytes())
    })
    .await;
    (server, asked)
}

#[tokio::test]
async fn a_disallowed_page_is_not_fetched_and_the_rule_is_quoted() {
    let robots =
        b"User-agent: *\nAllow: /\n\nUser-agent: Crawlway\nDisallow: /private\nAllow: /private/but\n";
    let (server, asked) = site(page("200 OK", "", robots)).await;
    let fetcher = fetcher();
    let error =
        expect(within(&fetcher, &obedient(&server.url("/private/x"))).await, FetchCode::RobotsDisallowed);
    assert_eq!(error.detail, "line 5 of robots.txt: `Disallow: /private`");
    assert_eq!(error.url, server.url("/private/x"));
    for path in ["/", "/public", "/private/but/this", "/robots.txt"] {
        within(&fetcher, &obedient(&server.url(path))).await.unwrap_or_else(|error| panic!("{error}"));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "once for its rules, once as a page");
    within(&fetcher, &request(&server.url("/private/x"))).await.expect("robots.txt is not obeyed");
}

#[tokio::test]
async fn the_product_token_selects_the_rules() {
    let robots = b"User-agent: newsbot\nDisallow: /\n\nUser-agent: mozilla\nDisallow: /m\n";
    let (server, _) = site(page("200 OK", "", robots)).await;
    let fetcher = fetcher();
    let mut request = obedient(&server.url("/m"));
    let browser = || Identity::user_agent("Mozilla/5.0 (compatible; newsbot/1)").expect("an agent");
    request.identity = Arc::new(browser());
    within(&fetcher, &request).await.expect("no rule for crawlway");
    request.identity = Arc::new(browser().with_robots_token("NewsBot").expect("a token"));
    expect(within(&fetcher, &request).await, FetchCode::RobotsDisallowed);
    for bad in ["", "a b", "news/1", "*"] {
        assert!(browser().with_robots_token(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_redirect_to_a_disallowed_page_is_not_followed() {
    let server = Server::by_path(|path| match path {
        "/robots.txt" => page("200 OK", "", b"User-agent: *\nDisallow: /private"),
        "/open" => page("302 Found", "location: /private\r\n", b""),
        path => page("200 OK", "", path.as_bytes()),
    })
    .await;
    let error =
        expect(within(&fetcher(), &obedient(&server.url("/open"))).await, FetchCode::RobotsDisallowed);
    assert_eq!(error.url, server.url("/private"));
}

#[tokio::test]
async fn a_missing_file_allows_everything() {
    for status in ["404 Not Found", "401 Unauthorized", "403 Forbidden", "410 Gone", "400 Bad Request"] {
        let (server, _) = site(page(status, "", b"User-agent: *\nDisallow: /")).await;
        within(&fetcher(), &obedient(&server.url("/x")))
            .await
            .unwrap_or_else(|error| panic!("{status}: {error}"));
    }
}

#[tokio::test]
async fn an_unreachable_file_closes_the_site() {
    for answer in [
        page("500 Oops", "", b""),
        page("503 Busy", "", b""),
        page("429 Slow Down", "", b""),
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nUser-agent".to_vec(),
        b"garbage\r\n\r\n".to_vec(),
        page("200 OK", "content-encoding: gzip\r\n", b"not gzip"),
    ] {
        let pages = Arc::new(AtomicUsize::new(0));
        let count = pages.clone();
        let server = Server::start(move |mut stream| {
            let (answer, count) = (answer.clone(), count.clone());
            async move {
                while let Some(path) = crate::server::request(&mut stream).await {
                    use tokio::io::AsyncWriteExt;
                    if path == "/robots.txt" {
                        let _ = stream.write_all(&answer).await;
                        return;
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(&page("200 OK", "", b"")).await;
                }
            }
        })
        .await;
        let fetcher = fetcher();
        // The first error counts as an attempt; the others wait for the next probe.
        for code in [FetchCode::RobotsUnreachable, FetchCode::RobotsWait] {
            let error = expect(within(&fetcher, &obedient(&server.url("/x"))).await, code);
            assert!(error.code.is_transient() && error.detail.contains("robots.txt"), "{error}");
            assert!(error.not_before.expect("the next probe") > Timestamp::now(), "{error}");
        }
        assert_eq!(pages.load(Ordering::SeqCst), 0, "the page was not requested");
        assert_eq!(server.connections.load(Ordering::SeqCst), 1, "the host is in back-off");
    }
}

#[tokio::test]
async fn probes_of_an_unreachable_site_follow_its_back_off() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let server = Server::by_path(move |path| match path {
        "/robots.txt" if count.fetch_add(1, Ordering::SeqCst) < 3 => page("503 Busy", "", b""),
        path => page("200 OK", "", path.as_bytes()),
    })
    .await;
    let clock = ManualClock::at(Timestamp::now());
    let rate_limiter =
        RateLimiterOptions { clock: Clock::Manual(clock.clone()), ..RateLimiterOptions::default() };
    let rate_limiter = Arc::new(EmbeddedRateLimiter::open(rate_limiter).expect("a rate limiter"));
    let setup =
        crawlway_fetch::FetcherConfig { rate_limiter, clock: Clock::Manual(clock.clone()), ..setup() };
    let fetcher = Fetcher::new(setup).expect("a fetcher");
    let request = |number: usize| Request {
        on_rate_limit: OnRateLimit::Defer,
        robots_max_wait: Duration::from_secs(3600),
        ..obedient(&server.url(&format!("/{number}")))
    };
    for (probe, back_off) in [5, 10, 20].into_iter().enumerate() {
        for number in 0..5 {
            let error = expect(within(&fetcher, &request(number)).await, FetchCode::RobotsWait);
            let pause = error.not_before.expect("the next probe").since(clock.now()).as_secs_f64();
            let jitter = 0.79 * f64::from(back_off)..=1.21 * f64::from(back_off);
            assert!(jitter.contains(&pause), "{pause} s after probe {probe}");
        }
        assert_eq!(asked.load(Ordering::SeqCst), probe + 1, "one request for five items");
        clock.advance(Duration::from_secs_f64(1.21 * f64::from(back_off)));
    }
    for number in 0..5 {
        within(&fetcher, &request(number)).await.expect("the site is back");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn permanent_failures_do_not_wait() {
    let refused = Server::by_path(|_| page("200 OK", "", b"")).await.url("/");
    let nowhere = "http://no.such.name.invalid/".to_owned();
    let guarded = crawlway_fetch::FetcherConfig { ssrf_guard: SsrfGuard::default(), ..setup() };
    let guarded = Fetcher::new(guarded).expect("a fetcher");
    for (fetcher, url, code) in
        [(guarded, refused, FetchCode::GuardPrivateAddress), (fetcher(), nowhere, FetchCode::DnsNotFound)]
    {
        let request = Request { robots_max_wait: Duration::from_secs(86_400), ..obedient(&url) };
        for _ in 0..2 {
            expect(within(&fetcher, &request).await, code);
        }
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_a_sixth_means_no_rules() {
    for (hops, code) in [(5, Some(FetchCode::RobotsDisallowed)), (6, None)] {
        let server = Server::by_path(move |path| {
            let at = match path {
                "/robots.txt" => 0,
                path => path.trim_start_matches("/r").parse().unwrap_or(99),
            };
            match at {
                99 => page("200 OK", "", b"page"),
                at if at == hops => page("200 OK", "", b"User-agent: *\nDisallow: /"),
                at => page("302 Found", &format!("location: /r{}\r\n", at + 1), b""),
            }
        })
        .await;
        let result = within(&fetcher(), &obedient(&server.url("/page"))).await;
        assert_eq!(result.err().map(|error| error.code), code, "{hops} redirects");
    }
}

#[tokio::test]
async fn the_rest_after_500_kib_is_ignored() {
    let mut robots = b"User-agent: *\nDisallow: /early\n".to_vec();
    while robots.len() < 500 << 10 {
        robots.extend_from_slice(b"# a comment that fills the file\n");
    }
    robots.extend_from_slice(b"Disallow: /late\n");
    robots.resize(3 << 20, b'#');
    let (server, _) = site(page("200 OK", "", &robots)).await;
    let fetcher = fetcher();
    expect(within(&fetcher, &obedient(&server.url("/early"))).await, FetchCode::RobotsDisallowed);
    within(&fetcher, &obedient(&server.url("/late"))).await.expect("a page");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_fetched_once_for_a_hundred_concurrent_pages() {
    let (server, asked) = site(page("200 OK", "", b"User-agent: *\nDisallow: /private")).await;
    let fetcher = Arc::new(fetcher());
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let (fetcher, request) = (fetcher.clone(), obedient(&server.url(&format!("/{number}"))));
            tokio::spawn(async move { fetcher.fetch(&request).await })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic").expect("a page");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn each_origin_has_its_own() {
    let (one, asked_one) = site(page("200 OK", "", b"User-agent: *\nDisallow: /")).await;
    let (two, asked_two) = site(page("200 OK", "", b"")).await;
    let fetcher = fetcher();
    for _ in 0..2 {
        expect(within(&fetcher, &obedient(&one.url("/"))).await, FetchCode::RobotsDisallowed);
        within(&fetcher, &obedient(&two.url("/"))).await.expect("a page");
        let named = format!("http://named.test:{}/", two.address.port());
        within(&fetcher, &obedient(&named)).await.expect("a page");
    }
    assert_eq!((asked_one.load(Ordering::SeqCst), asked_two.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn a_crawl_delay_raises_the_minimum_delay_up_to_a_limit() {
    for (delay, configured, gap) in
        [("5", 1, 5), ("0.1", 1, 1), ("999999", 1, 60), ("10", 30, 30), ("nonsense", 2, 2)]
    {
        let robots = format!("User-agent: *\nCrawl-delay: {delay}\nDisallow: /private");
        let (server, _) = site(page("200 OK", "", robots.as_bytes())).await;
        let rate_limiter = Arc::new(RecordingLimiter::unlimited());
        let fetcher =
            Fetcher::new(crawlway_fetch::FetcherConfig { rate_limiter: rate_limiter.clone(), ..setup() })
                .expect("a fetcher");
        let mut request = obedient(&server.url("/"));
        request.rate_limit.min_delay = Duration::from_secs(configured);
        within(&fetcher, &request).await.expect("a page");
        let gaps: Vec<u64> = rate_limiter.limits().iter().map(|limits| limits.min_delay.as_secs()).collect();
        assert_eq!(gaps, [configured, gap], "robots.txt first, then the page: {delay}");
    }
}

#[tokio::test]
async fn large_robots_files_are_evicted_for_newer_ones() {
    // Nearly the maximum number of rules in half a megabyte, about 6 MiB in memory.
    let robots = [&b"User-agent: x\n"[..], &b"Allow:/\n".repeat(60_000)].concat();
    let (server, asked) = site(page("200 OK", "", &robots)).await;
    let fetcher = fetcher();
    let page_of = |number: usize| obedient(&format!("http://h{number}.test:{}/", server.address.port()));
    for number in 0..12 {
        within(&fetcher, &page_of(number)).await.expect("a page");
    }
    within(&fetcher, &page_of(11)).await.expect("a page");
    assert_eq!(asked.load(Ordering::SeqCst), 12, "the newest is kept");
    within(&fetcher, &page_of(0)).await.expect("a page");
    assert_eq!(asked.load(Ordering::SeqCst), 13, "the oldest is not");
}
