//! Rate limiting: every request has a permit, and no server sees more than its limits allow.

use crate::{
    recording::{RecordingLimiter, RequestRecorder},
    server::{Server, page, silent},
    setup::{expect, fetcher, request, setup, within},
};
use crawlway_fetch::{FetchCode, Fetcher, OnRateLimit, Request};
use crawlway_store::{
    Clock, ManualClock, Timestamp,
    rate_limiter::{
        self, BackoffPolicy, CircuitBreakerPolicy, Group, RateLimitPolicy, RateLimiter, RequestOutcome,
        Reservation, Ticket,
    },
};
use crawlway_store_embedded::{EmbeddedRateLimiter, RateLimiterOptions};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

fn with_limiter(rate_limiter: Arc<dyn RateLimiter>) -> Fetcher {
    Fetcher::new(crawlway_fetch::FetcherConfig { rate_limiter, ..setup() }).expect("a fetcher")
}

/// Fetcher whose rate limiter has this policy and a manual clock.
fn with_policy(policy: RateLimitPolicy) -> (Fetcher, Arc<ManualClock>) {
    let clock = ManualClock::at(Timestamp::now());
    let options =
        RateLimiterOptions { policy, clock: Clock::Manual(clock.clone()), seed: Some(1), directory: None };
    (with_limiter(Arc::new(EmbeddedRateLimiter::open(options).expect("a rate limiter"))), clock)
}

fn deferred(url: &str) -> Request {
    Request { on_rate_limit: OnRateLimit::Defer, ..request(url) }
}

#[tokio::test]
async fn every_request_has_a_permit_of_its_host() {
    let server = Server::by_head(|head| {
        let port = head.split("host: ").nth(1).and_then(|rest| rest.split(['\r', ':']).nth(1)).unwrap_or("");
        match head.split_whitespace().nth(1) {
            Some("/a") => page("302 Found", "location: /b\r\n", b""),
            Some("/b") => page("301 Moved", &format!("location: http://second.test:{port}/c\r\n"), b""),
            Some("/robots.txt") if head.contains("first.test") => {
                page("302 Found", "location: /rules\r\n", b"")
            }
            _ => page("200 OK", "", b""),
        }
    })
    .await;
    let rate_limiter = Arc::new(RecordingLimiter::unlimited());
    let fetcher = with_limiter(rate_limiter.clone());
    let port = server.address.port();
    let mut request = request(&format!("http://first.test:{port}/a"));
    request.obey_robots = true;
    within(&fetcher, &request).await.expect("a page");
    let (first, second) = ("first.test", "second.test");
    // robots.txt with its redirect, the page with its redirect, then both of the other host.
    let expected = [first, first, first, first, second, second];
    assert_eq!(rate_limiter.groups(), expected);
    assert_eq!(rate_limiter.finished(), vec![RequestOutcome::Success; 6]);

    // The group of a request applies to its own host only.
    request.group = Some(Group::new("platform").expect("a group"));
    within(&fetcher, &request).await.expect("a page");
    assert_eq!(rate_limiter.groups()[6..], ["platform", "platform", second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrency_and_minimum_delay_hold_at_the_server() {
    let gap = Duration::from_millis(30);
    for in_flight in [1, 3] {
        let recorder = RequestRecorder::new();
        let server = recorder.server(Duration::from_millis(20)).await;
        let rate_limiter = Arc::new(RecordingLimiter::enforcing());
        let fetcher = Arc::new(with_limiter(rate_limiter.clone()));
        let mut tasks = Vec::new();
        for number in 0..50 {
            let host = format!("host-{}.test", number % 3);
            let mut request = request(&format!("http://{host}:{}/{number}", server.address.port()));
            request.rate_limit = rate_limiter::RateLimits { concurrency: in_flight, min_delay: gap };
            let fetcher = fetcher.clone();
            tasks.push(tokio::spawn(async move { fetcher.fetch(&request).await }));
        }
        for task in tasks {
            task.await.expect("no panic").expect("a page");
        }
        let granted = rate_limiter.granted();
        for host in ["host-0.test", "host-1.test", "host-2.test"] {
            let requests = recorder.of(host);
            assert!(requests.len() >= 16);
            for request in &requests {
                let open =
                    requests.iter().filter(|other| other.0 <= request.0 && other.1 > request.0).count();
                assert!(open <= in_flight as usize, "{host}: {open} concurrent requests");
            }
            // Delay from end to start at the server; the limiter's clock has whole milliseconds.
            for pair in requests.windows(2).filter(|_| in_flight == 1) {
                let since = pair[1].0 - pair[0].1;
                assert!(since + Duration::from_millis(2) >= gap, "{host}: a delay of {since:?}");
            }
            // Delay from start to start by the limiter's clock, since the server sees a start some time later.
            let mut starts: Vec<_> =
                granted.iter().filter(|granted| granted.group == host).map(|granted| granted.at).collect();
            starts.sort();
            assert_eq!(starts.len(), requests.len(), "every request had a permit");
            for pair in starts.windows(2) {
                assert!(pair[1].since(pair[0]) >= gap, "{host}: {pair:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_deferred_request_has_its_slot() {
    let server = Server::by_path(|_| page("200 OK", "", b"ok")).await;
    let (fetcher, clock) = with_policy(RateLimitPolicy::default());
    let pace = rate_limiter::RateLimits::one_at_a_time(Duration::from_secs(10));
    let requests: Vec<Request> =
        (0..3).map(|n| Request { rate_limit: pace, ..deferred(&server.url(&format!("/{n}"))) }).collect();
    within(&fetcher, &requests[0]).await.expect("the first has a permit at once");
    let mut slots = Vec::new();
    for request in &requests[1..] {
        let error = expect(within(&fetcher, request).await, FetchCode::RateLimited);
        let slot = error.not_before.expect("a slot");
        assert!(slot >= clock.now() + Duration::from_secs(10), "the minimum delay from now");
        // Another attempt keeps the slot.
        assert_eq!(expect(within(&fetcher, request).await, FetchCode::RateLimited).not_before, Some(slot));
        slots.push(slot);
    }
    assert!(slots[1] >= slots[0] + Duration::from_secs(10), "the minimum delay between slots");
    for (request, slot) in requests[1..].iter().zip(slots) {
        clock.set(slot);
        within(&fetcher, request).await.expect("a permit at its slot");
    }
}

#[tokio::test]
async fn a_wait_beyond_the_maximum_fails_at_once() {
    let server = Server::by_path(|_| page("200 OK", "", b"ok")).await;
    let fetcher = fetcher();
    let mut request = request(&server.url("/"));
    request.rate_limit = rate_limiter::RateLimits::one_at_a_time(Duration::from_secs(3600));
    request.on_rate_limit = OnRateLimit::Wait { max_wait: Duration::from_millis(50) };
    within(&fetcher, &request).await.expect("the first has a permit");
    let error = expect(within(&fetcher, &request).await, FetchCode::RateLimited);
    assert!(error.not_before.is_some() && error.detail.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn too_many_requests_with_retry_after_in_seconds_and_as_a_date() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(900));
    for (status, after, code, at_least) in [
        ("429 Slow Down", "120".to_owned(), FetchCode::Blocked429, 120),
        ("429 Slow Down", date, FetchCode::Blocked429, 890),
        ("503 Busy", "60".to_owned(), FetchCode::Blocked503, 60),
    ] {
        let answer = page(status, &format!("retry-after: {after}\r\n"), b"");
        let server = Server::by_path(move |_| answer.clone()).await;
        let (fetcher, clock) = with_policy(RateLimitPolicy::default());
        let before = Timestamp::now();
        let error = expect(within(&fetcher, &deferred(&server.url("/"))).await, code);
        let at_least = Duration::from_secs(at_least);
        assert!(error.not_before.expect("a time") >= before + at_least, "{error:?}");
        // Other requests of the host wait too.
        let other = deferred(&server.url("/other"));
        let error = expect(within(&fetcher, &other).await, FetchCode::RateLimited);
        assert!(error.not_before.expect("a time") >= clock.now() + at_least, "{error:?}");
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn challenges_are_blocks() {
    let body = b"<html><title>Just a moment...</title><script src=/cdn-cgi/challenge-platform/x.js>";
    for answer in [
        page("403 Forbidden", "content-type: text/html\r\n", body),
        page("503 Busy", "content-type: text/html\r\n", body),
        page("200 OK", "content-type: text/html\r\n", body),
        page("200 OK", "cf-mitigated: challenge\r\n", b""),
    ] {
        let server = Server::by_path(move |_| answer.clone()).await;
        expect(within(&fetcher(), &request(&server.url("/"))).await, FetchCode::BlockedChallenge);
    }
}

#[tokio::test]
async fn failures_cause_back_off_and_then_open_the_circuit_breaker() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let policy = RateLimitPolicy {
        backoff: BackoffPolicy { jitter_percent: 0, ..BackoffPolicy::default() },
        breaker: Some(CircuitBreakerPolicy { failure_threshold: 3, ..CircuitBreakerPolicy::default() }),
        ..RateLimitPolicy::default()
    };
    let (fetcher, clock) = with_policy(policy.clone());
    let request = deferred(&format!("http://{free}/"));
    for wait in [5, 10] {
        expect(within(&fetcher, &request).await, FetchCode::Refused);
        let error = expect(within(&fetcher, &request).await, FetchCode::RateLimited);
        assert!(error.detail.contains("in back-off"), "{error}");
        let slot = error.not_before.expect("a time");
        assert!(slot >= clock.now() + Duration::from_secs(wait), "{slot:?}");
        clock.set(slot);
    }
    expect(within(&fetcher, &request).await, FetchCode::Refused);
    let error = expect(within(&fetcher, &request).await, FetchCode::BreakerOpen);
    assert!(error.not_before.expect("a time") >= clock.now() + policy.breaker.expect("one").cooldown);
    // Half open: one probe, and after its success all requests.
    let server = Server::on(&free.to_string(), |_| page("200 OK", "", b"back")).await;
    clock.set(error.not_before.expect("a time"));
    within(&fetcher, &request).await.expect("the probe");
    within(&fetcher, &deferred(&server.url("/other"))).await.expect("other requests");
}

#[tokio::test]
async fn a_cancelled_fetch_releases_its_permit() {
    let server = silent().await;
    let rate_limiter =
        Arc::new(EmbeddedRateLimiter::open(RateLimiterOptions::default()).expect("a rate limiter"));
    let fetcher = with_limiter(rate_limiter.clone());
    let mut request = request(&server.url("/"));
    request.rate_limit = rate_limiter::RateLimits::one_at_a_time(Duration::ZERO);
    let cancelled = tokio::time::timeout(Duration::from_millis(100), fetcher.fetch(&request)).await;
    assert!(cancelled.is_err(), "the server never answers");
    // The permit is free long before its lease ends.
    let started = Instant::now();
    let group = Group::new("127.0.0.1").expect("a group");
    loop {
        match rate_limiter.reserve(&group, Ticket::of("next"), &request.rate_limit).await.expect("an answer")
        {
            Reservation::Granted(_) => break,
            Reservation::NotBefore { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
        }
        assert!(started.elapsed() < Duration::from_secs(10), "the permit is still taken");
    }
}

#[tokio::test]
async fn a_permit_is_extended_while_its_request_runs() {
    let policy = RateLimitPolicy { lease: Duration::from_secs(1), ..RateLimitPolicy::default() };
    let rate_limiter = Arc::new(
        EmbeddedRateLimiter::open(RateLimiterOptions { policy, ..RateLimiterOptions::default() })
            .expect("a rate limiter"),
    );
    let recorder = RequestRecorder::new();
    let server = recorder.server(Duration::from_millis(1500)).await;
    let fetcher = with_limiter(rate_limiter);
    let url = |n: u8| format!("http://slow.test:{}/{n}", server.address.port());
    let requests = [1, 2].map(|n| {
        let mut request = request(&url(n));
        request.rate_limit = rate_limiter::RateLimits::one_at_a_time(Duration::ZERO);
        request.limits.first_byte = Duration::from_secs(8);
        request.limits.total = Duration::from_secs(8);
        request
    });
    let both = tokio::join!(fetcher.fetch(&requests[0]), fetcher.fetch(&requests[1]));
    both.0.expect("a page");
    both.1.expect("a page");
    let requests = recorder.of("slow.test");
    assert!(requests[1].0 >= requests[0].1, "the second starts after the first: {requests:?}");
}

#[tokio::test]
async fn thousands_of_hosts_leave_few_connections_and_no_tasks() {
    let server = Server::by_path(|path| page("200 OK", "", path.as_bytes())).await;
    let mut setup = setup();
    setup.pool_limits.max_total = 50;
    let fetcher = Fetcher::new(setup).expect("a fetcher");
    for number in 0..2000 {
        let url = format!("http://host-{number}.test:{}/{number}", server.address.port());
        let fetched = within(&fetcher, &request(&url)).await.expect("a page");
        assert_eq!(&*fetched.body, format!("/{number}").as_bytes());
        assert!(fetcher.idle_connections() <= 50);
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 2000);
    // An open connection has a task on either side; a closed one has none.
    let started = Instant::now();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    while alive() > 110 && started.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(alive() <= 110, "{} tasks are left", alive());
    drop(fetcher);
}

#[tokio::test]
async fn a_cancelled_wait_frees_its_slot() {
    let server = Server::by_path(|_| page("200 OK", "", b"hello")).await;
    let clock = ManualClock::at(Timestamp::now());
    let policy = RateLimitPolicy { initial_latency: Duration::ZERO, ..RateLimitPolicy::default() };
    let options = RateLimiterOptions { policy, clock: Clock::Manual(clock), seed: Some(1), directory: None };
    let rate_limiter = Arc::new(EmbeddedRateLimiter::open(options).expect("a rate limiter"));
    let fetcher = with_limiter(rate_limiter.clone());
    let pace = rate_limiter::RateLimits::one_at_a_time(Duration::from_secs(20));
    let numbered =
        |n: u128| Request { rate_limit: pace, ticket: Ticket::from_u128(n), ..request(&server.url("/")) };
    within(&fetcher, &numbered(1)).await.expect("the first has a permit at once");
    // The second waits for its slot in 20 s, and is cancelled.
    let waiting = tokio::time::timeout(Duration::from_millis(200), fetcher.fetch(&numbered(2))).await;
    assert!(waiting.is_err(), "it waits");
    let group = Group::new("127.0.0.1").expect("a group");
    let mut slot = None;
    for _ in 0..200 {
        // The third gets the slot of the second: one minimum delay ahead, not two.
        let turn = rate_limiter.reserve(&group, Ticket::from_u128(3), &pace).await.expect("an answer");
        let Reservation::NotBefore { at, .. } = turn else { panic!("too soon: {turn:?}") };
        rate_limiter.cancel(&group, Ticket::from_u128(3)).await.expect("left");
        slot = Some(at.since(Timestamp::now()));
        if slot < Some(Duration::from_secs(30)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the slot is still taken: the next one is {slot:?} ahead");
}

#[tokio::test]
async fn a_retry_after_a_stale_connection_has_a_permit_of_its_own() {
    // Responds to the first request of a connection, and closes it after reading the second.
    let server = Server::start(|mut stream| async move {
        crate::server::request(&mut stream).await;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &page("200 OK", "", b"x")).await;
        crate::server::request(&mut stream).await;
    })
    .await;
    let rate_limiter = Arc::new(RecordingLimiter::unlimited());
    let fetcher = with_limiter(rate_limiter.clone());
    let request = Request { obey_robots: false, ..request(&server.url("/a")) };
    within(&fetcher, &request).await.expect("a page");
    within(&fetcher, &request).await.expect("the same on a new connection");
    // Three requests reached the server: the second failed and was sent again.
    assert_eq!(rate_limiter.groups().len(), 3);
    assert_eq!(
        rate_limiter.finished(),
        [RequestOutcome::Success, RequestOutcome::Neutral, RequestOutcome::Success]
    );
}
