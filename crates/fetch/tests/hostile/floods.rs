//! Floods: responses with many frames and next to no content.

use crate::{
    server::{Server, endlessly, page, request as read_request},
    setup::{fetch, request, within},
    tls::{Authority, trusting},
};
use crawlway_fetch::{FetchError, FetchResponse};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

#[track_caller]
fn expect_flood(result: Result<FetchResponse, FetchError>) {
    let error = result.expect_err("a flood");
    assert_eq!(error.code.as_str(), "http.flood", "{error}");
}

#[tokio::test]
async fn endless_chunks_of_one_byte() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(CHUNKED).await;
        endlessly(&mut stream, &b"1\r\nx\r\n".repeat(1000)).await;
    })
    .await;
    expect_flood(fetch(&server.url("/")).await);
}

#[tokio::test]
async fn an_endless_chunk_length() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(CHUNKED).await;
        endlessly(&mut stream, &[b'0'; 4096]).await;
    })
    .await;
    expect_flood(fetch(&server.url("/")).await);
}

#[tokio::test]
async fn a_page_in_many_small_chunks() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(CHUNKED).await;
        let _ = stream.write_all(&b"3\r\nabc\r\n".repeat(30_000)).await;
        let _ = stream.write_all(b"0\r\n\r\n").await;
    })
    .await;
    assert_eq!(fetch(&server.url("/")).await.expect("a page").body.len(), 90_000);
}

#[tokio::test]
async fn a_slow_site_that_sends_byte_by_byte() {
    let server = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(CHUNKED).await;
        for _ in 0..100 {
            let _ = stream.write_all(b"1\r\nx\r\n").await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let _ = stream.write_all(b"0\r\n\r\n").await;
    })
    .await;
    assert_eq!(fetch(&server.url("/")).await.expect("a page").body.len(), 100);
}

#[tokio::test]
async fn endless_informational_responses() {
    for piece in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n"] {
        let server = Server::start(move |mut stream| async move {
            read_request(&mut stream).await;
            endlessly(&mut stream, piece.repeat(1000).as_bytes()).await;
        })
        .await;
        expect_flood(fetch(&server.url("/")).await);
    }
}

#[tokio::test]
async fn a_few_informational_responses_before_the_page() {
    let mut answer = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n".repeat(20).into_bytes();
    answer.extend(page("200 OK", "", b"page"));
    let server = Server::replying(answer).await;
    assert_eq!(&*fetch(&server.url("/")).await.expect("a page").body, b"page");
}

/// HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Reads the preface and frames up to the head of a request.
async fn read_http2_request(from: &mut (impl AsyncRead + Unpin)) -> Option<()> {
    let mut preface = [0; 24];
    from.read_exact(&mut preface).await.ok()?;
    loop {
        let mut head = [0; 9];
        from.read_exact(&mut head).await.ok()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        from.read_exact(&mut vec![0; length]).await.ok()?;
        if head[3] == 1 {
            return Some(());
        }
    }
}

/// Fetch from an HTTP/2 server that replies with `first`, and then with `repeated` without end.
async fn over_http2(first: Vec<u8>, repeated: Vec<u8>) -> Result<FetchResponse, FetchError> {
    let authority = Authority::new("ours");
    let acceptor = TlsAcceptor::from(authority.sign("good.test", 4000, &[b"h2"]));
    let server = Server::start(move |stream| {
        let (acceptor, first, then) = (acceptor.clone(), first.clone(), repeated.repeat(1000));
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let (mut from, mut to) = tokio::io::split(stream);
            if read_http2_request(&mut from).await.is_none() {
                return;
            }
            tokio::spawn(async move { drop(tokio::io::copy(&mut from, &mut tokio::io::sink()).await) });
            let _ = to.write_all(&frame(4, 0, 0, &[])).await;
            let _ = to.write_all(&first).await;
            endlessly(&mut to, &then).await;
        }
    })
    .await;
    let url = format!("https://good.test:{}/", server.address.port());
    let mut request = request(&url);
    request.limits.first_byte = Duration::from_secs(9);
    request.limits.total = Duration::from_secs(9);
    within(&trusting(&authority), &request).await
}

#[tokio::test]
async fn endless_pings_and_empty_frames_over_http2() {
    // Status 200, entry 8 of the static table, without the end of the stream.
    let head = frame(1, 4, 1, &[0x88]);
    expect_flood(over_http2(Vec::new(), frame(6, 0, 0, &[0; 8])).await);
    expect_flood(over_http2(head.clone(), frame(6, 0, 0, &[0; 8])).await);
    // HTTP/2 itself ends a stream of empty data frames, with another error.
    over_http2(head, frame(0, 0, 1, &[])).await.expect_err("a flood");
}

#[tokio::test]
async fn endless_informational_responses_over_http2() {
    // `:status: 103`, by the name of entry 8 of the static table.
    expect_flood(over_http2(Vec::new(), frame(1, 4, 1, &[0x08, 3, b'1', b'0', b'3'])).await);
}
