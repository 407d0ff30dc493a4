//! Responses of an ordinary server, and of servers that do not speak HTTP.

use crate::{
    server::{Server, endless_headers, page, request as read_request, silent},
    setup::{expect, fetch, fetcher, request, within},
};
use crawlway_fetch::{FetchCode, Identity, Validators};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_page_has_its_headers_and_the_connection_is_pooled() {
    let server =
        Server::by_path(|path| page("200 OK", "x-path: yes\r\ncontent-type: text/html\r\n", path.as_bytes()))
            .await;
    let fetcher = fetcher();
    for n in 0..5 {
        let fetched = within(&fetcher, &request(&server.url(&format!("/page-{n}?q=1")))).await.unwrap();
        assert_eq!((fetched.status.as_u16(), &*fetched.body), (200, format!("/page-{n}?q=1").as_bytes()));
        assert_eq!(fetched.content_type(), Some("text/html"));
        assert_eq!(fetched.address, server.address);
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1, "one connection for all");
}

#[tokio::test]
async fn a_stale_pooled_connection_is_replaced() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(&page("200 OK", "", b"once")).await;
        // Closes a moment later without `Connection: close`.
        tokio::time::sleep(Duration::from_millis(5)).await;
    })
    .await;
    let fetcher = fetcher();
    for _ in 0..10 {
        assert_eq!(&*within(&fetcher, &request(&server.url("/"))).await.unwrap().body, b"once");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn validators_and_identity_are_sent() {
    let received = Arc::new(Mutex::new(String::new()));
    let recorder = received.clone();
    let server = Server::start(move |mut stream| {
        let recorder = recorder.clone();
        async move {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or(0);
            *recorder.lock().unwrap() = String::from_utf8_lossy(&head[..read]).into_owned();
            let _ = stream.write_all(b"HTTP/1.1 304 Not Modified\r\netag: \"b\"\r\n\r\n").await;
        }
    })
    .await;
    let mut request = request(&server.url("/a"));
    request.validators = Validators {
        etag: Some("\"a\"".into()),
        last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
    };
    request.identity = Arc::new(Identity::user_agent("probe/1").unwrap());
    let fetched = within(&fetcher(), &request).await.unwrap();
    assert_eq!((fetched.status.as_u16(), fetched.body.len()), (304, 0));
    assert_eq!(Validators::of(&fetched.headers).etag.as_deref(), Some("\"b\""));
    let received = received.lock().unwrap().to_ascii_lowercase();
    for line in [
        "get /a http/1.1",
        "if-none-match: \"a\"",
        "if-modified-since: sun, 06 nov 1994",
        "user-agent: probe/1",
        "accept-encoding: gzip, br, zstd, deflate",
    ] {
        assert!(received.contains(line), "{line} in {received}");
    }
    assert!(!received.contains("cookie"));
}

#[tokio::test]
async fn garbage_instead_of_http() {
    for garbage in [
        &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
        b"\0\x01\x02\x03\xff\xfe",
        b"HTTP/9.9 what\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    ] {
        let server = Server::replying(garbage).await;
        expect(fetch(&server.url("/")).await, FetchCode::HttpProtocol);
    }
}

#[tokio::test]
async fn a_connection_closed_without_a_response() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
    })
    .await;
    expect(fetch(&server.url("/")).await, FetchCode::Reset);
    let server = Server::replying("HTTP/1.1 200 OK\r\ncontent-le").await;
    expect(fetch(&server.url("/")).await, FetchCode::Reset);
}

#[tokio::test]
async fn connection_refused() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    expect(fetch(&format!("http://{free}/")).await, FetchCode::Refused);
}

#[tokio::test]
async fn unknown_host() {
    expect(fetch("http://nowhere.invalid/").await, FetchCode::DnsNotFound);
}

#[tokio::test]
async fn a_server_that_never_answers_and_one_that_half_closes() {
    expect(fetch(&silent().await.url("/")).await, FetchCode::TimeoutFirstByte);
    let half = Server::start(|mut stream| async move {
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
    expect(fetch(&half.url("/")).await, FetchCode::Reset);
}

#[tokio::test]
async fn a_flood_of_headers() {
    expect(fetch(&endless_headers().await.url("/")).await, FetchCode::HeadersTooLarge);
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "a: b\r\n".repeat(1000));
    expect(fetch(&Server::replying(many).await.url("/")).await, FetchCode::HeadersTooLarge);
    let one = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "v".repeat(200_000));
    expect(fetch(&Server::replying(one).await.url("/")).await, FetchCode::HeadersTooLarge);
}

#[tokio::test]
async fn headers_that_drip() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    expect(fetch(&server.url("/")).await, FetchCode::TimeoutFirstByte);
}
