//! Redirect chains: loops, limits, targets, and the headers that go along.

use crate::{
    server::{Server, page, redirect as to},
    setup::{expect, fetch, fetcher, request, within},
};
use crawlway_fetch::{FetchCode, OnRateLimit, Request, Validators};
use crawlway_store::rate_limiter::RateLimits;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn redirects_are_resolved_and_followed() {
    let server = Server::by_path(|path| match path {
        "/absolute" => to("http://other.test:1/../%7ebob"),
        "/a/relative" => to("b?c=d#e"),
        "/a/root" => to("/end"),
        "/a/up" => to("../end"),
        "/query" => to("?x=1"),
        "/empty" => page("301 Moved", "", b"no location is no redirect"),
        "/300" => page("300 Multiple Choices", "location: /end\r\n", b"choose"),
        "/304" => page("304 Not Modified", "location: /end\r\n", b""),
        path => page("200 OK", "", path.as_bytes()),
    })
    .await;
    for (path, body, status, hops) in [
        ("/a/relative", "/a/b?c=d", 200, 1),
        ("/a/root", "/end", 200, 1),
        ("/a/up", "/end", 200, 1),
        ("/query?y", "/query?y", 200, 0),
        ("/empty", "no location is no redirect", 301, 0),
        ("/300", "choose", 300, 0),
        ("/304", "", 304, 0),
    ] {
        let fetched = fetch(&server.url(path)).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(
            (&*fetched.body, fetched.status.as_u16(), fetched.hops.len()),
            (body.as_bytes(), status, hops),
            "{path}"
        );
    }
    let error = expect(fetch(&server.url("/absolute")).await, FetchCode::Refused);
    assert_eq!(error.url, "http://other.test:1/~bob", "the URL at which it failed is the redirect's");
}

#[tokio::test]
async fn loops_are_detected() {
    let server = Server::by_path(|path| match path {
        "/self" => to("/self"),
        "/fragment" => to("/fragment#again"),
        "/ping" => to("/pong"),
        "/pong" => to("/ping"),
        "/long/3" => to("/long/1"),
        "/long/2" => to("/long/3"),
        "/long/1" => to("/long/2"),
        path => page("200 OK", "", path.as_bytes()),
    })
    .await;
    for path in ["/self", "/fragment", "/ping", "/long/1"] {
        let error = expect(fetch(&server.url(path)).await, FetchCode::RedirectLoop);
        assert!(error.detail.contains("redirect back to"), "{error}");
    }
}

#[tokio::test]
async fn the_number_of_redirects_is_limited() {
    let server = Server::by_path(|path| {
        let number: u64 = path.trim_start_matches('/').parse().unwrap_or(0);
        to(&format!("/{}", number + 1))
    })
    .await;
    let fetcher = fetcher();
    let mut request = request(&server.url("/0"));
    request.limits.redirects = 7;
    let error = expect(within(&fetcher, &request).await, FetchCode::RedirectTooMany);
    assert_eq!(error.url, server.url("/7"));
    request.limits.redirects = 0;
    expect(within(&fetcher, &request).await, FetchCode::RedirectTooMany);
}

#[tokio::test]
async fn invalid_targets() {
    for location in [
        "ftp://example.test/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "gopher://x.test/",
        "data:text/html,hello",
        "mailto:a@b.test",
        "http://",
        "http://[bad/",
        "//",
    ] {
        let server = Server::replying(to(location)).await;
        let error = expect(fetch(&server.url("/")).await, FetchCode::RedirectInvalid);
        assert!(error.detail.contains(location), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_to_tls_is_a_new_connection() {
    let plain = Server::start(|mut stream| async move {
        let _ = stream.write_all(b"220 not what you think\r\n").await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
    let address = plain.address;
    let server = Server::by_path(move |_| to(&format!("https://{address}/"))).await;
    // The server does not speak TLS; the failed handshake shows that the client does.
    expect(fetch(&server.url("/")).await, FetchCode::TlsHandshake);
    assert_eq!(plain.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_redirect_to_another_origin_of_the_host_waits_for_its_robots_file() {
    let target = Server::by_path(|path| page("200 OK", "", path.as_bytes())).await;
    let (port, asked) = (target.address.port(), Arc::new(AtomicUsize::new(0)));
    let counted = asked.clone();
    let server = Server::by_path(move |path| match path {
        "/robots.txt" => page("404 Not Found", "", b""),
        _ => {
            counted.fetch_add(1, Ordering::SeqCst);
            to(&format!("http://same.test:{port}/end"))
        }
    })
    .await;
    let request = Request {
        obey_robots: true,
        on_rate_limit: OnRateLimit::Defer,
        rate_limit: RateLimits::one_at_a_time(Duration::from_millis(200)),
        ..request(&format!("http://same.test:{}/start", server.address.port()))
    };
    let fetcher = fetcher();
    let fetched = loop {
        match within(&fetcher, &request).await {
            Ok(fetched) => break fetched,
            Err(error) => assert_eq!(error.code, FetchCode::RateLimited, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        (&*fetched.body, asked.load(Ordering::SeqCst)),
        (&b"/end"[..], 1),
        "the redirect is fetched once"
    );
}

#[tokio::test]
async fn validators_stay_with_their_host() {
    let server = Server::by_head(|head| match head.split_whitespace().nth(1) {
        Some("/start") => to("/same"),
        Some("/same") => {
            assert!(head.contains("if-none-match"), "the same host: {head}");
            let port =
                head.split("host: ").nth(1).and_then(|rest| rest.split(['\r', ':']).nth(1)).unwrap_or("");
            to(&format!("http://second.test:{port}/end"))
        }
        _ => page("200 OK", "", head.as_bytes()),
    })
    .await;
    let mut request = request(&format!("http://first.test:{}/start", server.address.port()));
    request.validators = Validators { etag: Some("\"a\"".into()), last_modified: Some("yesterday".into()) };
    let fetched = within(&fetcher(), &request).await.expect("a page");
    let received = String::from_utf8_lossy(&fetched.body);
    assert_eq!(fetched.hops.len(), 2);
    assert!(received.contains("host: second.test"), "{received}");
    for validator in ["if-none-match", "if-modified-since"] {
        assert!(!received.contains(validator), "{validator} in {received}");
    }
}
