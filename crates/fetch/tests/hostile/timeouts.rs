//! The total timeout covers every redirect and every robots.txt with its redirects.

use crate::{
    server::{Server, page, redirect as to, request as read_request},
    setup::{expect, fetcher, request, within},
};
use crawlway_fetch::{FetchCode, Request};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Latency of a response, well within the first-byte timeout.
const SLOW: Duration = Duration::from_millis(500);

/// Server with a response and a latency for each path.
async fn slow(answer: impl Fn(&str) -> (Duration, Vec<u8>) + Send + Sync + 'static) -> Server {
    let answer = std::sync::Arc::new(answer);
    Server::start(move |mut stream| {
        let answer = answer.clone();
        async move {
            while let Some(path) = read_request(&mut stream).await {
                let (time, answer) = answer(&path);
                tokio::time::sleep(time).await;
                if stream.write_all(&answer).await.is_err() {
                    return;
                }
            }
        }
    })
    .await
}

fn obedient(url: &str, total: Duration) -> Request {
    let mut request = Request { obey_robots: true, ..request(url) };
    request.limits.total = total;
    request
}

#[tokio::test]
async fn slow_robots_files_of_a_redirect_chain_count_towards_the_total_timeout() {
    // Every page redirects at once to the next host, and every robots.txt is slow.
    let hosts: Vec<_> = (0..8).map(|number| format!("h{number}.test")).collect();
    let last = hosts.len() - 1;
    let server = slow(move |path| {
        let Some((hop, port)) = path.strip_prefix("/hop/").and_then(|rest| rest.split_once('/')) else {
            return (SLOW, page("404 Not Found", "", b""));
        };
        let hop: usize = hop.parse().unwrap_or(0);
        let next = if hop == last {
            page("200 OK", "", b"the end")
        } else {
            to(&format!("http://{}:{port}/hop/{}/{port}", hosts[hop + 1], hop + 1))
        };
        (Duration::ZERO, next)
    })
    .await;
    let port = server.address.port();
    let url = format!("http://h0.test:{port}/hop/0/{port}");
    expect(within(&fetcher(), &obedient(&url, Duration::from_secs(2))).await, FetchCode::TimeoutTotal);
    let all = within(&fetcher(), &obedient(&url, Duration::from_secs(60))).await.expect("there is time");
    assert_eq!(&*all.body, b"the end");
}

#[tokio::test]
async fn the_redirects_of_a_robots_file_count_towards_the_total_timeout() {
    let server = slow(|path| match path {
        "/robots.txt" => (SLOW, to("/r1")),
        "/page" => (Duration::ZERO, page("200 OK", "", b"page")),
        path => {
            let number: usize = path.trim_start_matches("/r").parse().unwrap_or(0);
            (SLOW, to(&format!("/r{}", number + 1)))
        }
    })
    .await;
    let request = obedient(&server.url("/page"), Duration::from_secs(1));
    let error = expect(within(&fetcher(), &request).await, FetchCode::RobotsUnreachable);
    assert!(error.detail.contains("timeout.total"), "{error}");
}

#[tokio::test]
async fn a_timeout_caused_by_other_hosts_is_not_blamed_on_the_last() {
    let server = slow(|path| match path.strip_prefix("/slow/") {
        Some(port) => (2 * SLOW - SLOW / 5, to(&format!("http://late.test:{port}/page"))),
        None if path == "/robots.txt" => (SLOW, page("404 Not Found", "", b"")),
        None => (Duration::ZERO, page("200 OK", "", b"page")),
    })
    .await;
    let port = server.address.port();
    let fetcher = fetcher();
    let mut first = obedient(&format!("http://127.0.0.1:{port}/page"), Duration::from_secs(5));
    within(&fetcher, &first).await.expect("its robots.txt is cached");
    first = obedient(&format!("http://127.0.0.1:{port}/slow/{port}"), 2 * SLOW);
    expect(within(&fetcher, &first).await, FetchCode::TimeoutTotal);
    let late = obedient(&format!("http://late.test:{port}/page"), Duration::from_secs(5));
    within(&fetcher, &late).await.expect("neither an outage of robots.txt nor a back-off");
}
