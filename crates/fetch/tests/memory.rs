//! Peak memory of the fetcher against hostile servers.
//!
//! One test in a process of its own, since it reads the peak of the process.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "hostile/server.rs"]
mod server;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "hostile/setup.rs"]
mod setup;

use crawlway_fetch::{FetchCode, Fetcher};
use server::{
    Server, dripping_body, encoded, endless_body, endless_headers, endlessly, gzip, page,
    request as read_request,
};
use setup::{expect, fetcher, limits, request, within};
use std::io::Write;

/// Rounds of each case, so that leaks add up.
const ROUNDS: usize = 20;

/// One body on the wire, the same decompressed in a growing vector, and overhead of the allocator.
const MAX_GROWTH_KIB: usize = 32 << 10;

fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this system has /proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Writes a stream of zeros far beyond the limit.
fn bomb(mut encoder: impl Write, megabytes: usize) {
    let zeros = vec![0; 1 << 20];
    for _ in 0..megabytes {
        encoder.write_all(&zeros).expect("memory");
    }
}

fn gzip_bomb() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb(&mut encoder, 500);
    encoder.finish().expect("memory")
}

fn zstd_bomb() -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("an encoder");
    bomb(&mut encoder, 500);
    encoder.finish().expect("memory")
}

#[tokio::test]
async fn hostile_servers_do_not_fill_the_memory() {
    let (endless, flood, drip) = (endless_body().await, endless_headers().await, dripping_body().await);
    let line = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        endlessly(&mut stream, &[b'H'; 16 << 10]).await;
    })
    .await;
    let (gzipped, zstd) = (gzip_bomb(), zstd_bomb());
    assert!(gzipped.len() < limits().body_bytes && zstd.len() < limits().body_bytes);
    let bombs = [
        encoded("gzip", &gzipped).await,
        encoded("gzip, gzip", &gzip(&gzipped)).await,
        encoded("gzip, gzip, gzip", &gzip(&gzip(&gzipped))).await,
        encoded("zstd", &zstd).await,
        encoded("gzip, zstd", &zstd::stream::encode_all(&gzipped[..], 3).expect("memory")).await,
    ];
    drop((gzipped, zstd));
    // Small responses must not leak either.
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let malformed = [
        (
            Server::replying("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n").await,
            FetchCode::RedirectLoop,
        ),
        (
            Server::replying("HTTP/1.1 302 Found\r\nlocation: http://[::1]/\r\ncontent-length: 0\r\n\r\n")
                .await,
            FetchCode::GuardPrivateAddress,
        ),
        (Server::replying("SSH-2.0-OpenSSH_9.2\r\n").await, FetchCode::HttpProtocol),
        (
            Server::replying("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this").await,
            FetchCode::HttpLength,
        ),
        (Server::replying(format!("{chunked}ff\r\nonly this")).await, FetchCode::HttpLength),
        (
            Server::replying("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await,
            FetchCode::BodyTooLarge,
        ),
        (Server::replying("").await, FetchCode::Reset),
    ];
    let small = Server::by_path(|path| page("200 OK", "", path.as_bytes())).await;
    let visit = async |fetcher: &Fetcher, server: &Server, number: usize| {
        let url = format!("http://host-{number}.test:{}/", server.address.port());
        within(fetcher, &request(&url)).await
    };

    let fetcher = fetcher();
    // One-time allocations, such as the tables of a decoder, do not count.
    for number in 0..10 {
        visit(&fetcher, &small, number).await.expect("a page");
    }
    let before = peak_kib();
    let mut number = 10;
    for _ in 0..ROUNDS {
        // Each in a group of its own, since a failed group is in back-off.
        let mut next = || {
            number += 1;
            number
        };
        expect(visit(&fetcher, &endless, next()).await, FetchCode::BodyTooLarge);
        expect(visit(&fetcher, &flood, next()).await, FetchCode::HeadersTooLarge);
        let error = visit(&fetcher, &line, next()).await.expect_err("no HTTP");
        assert!(matches!(error.code, FetchCode::HttpProtocol | FetchCode::HeadersTooLarge), "{error}");
        for (server, code) in &malformed {
            expect(visit(&fetcher, server, next()).await, *code);
        }
        for bomb in &bombs {
            expect(visit(&fetcher, bomb, next()).await, FetchCode::BodyBomb);
        }
    }
    number += 1;
    expect(visit(&fetcher, &drip, number).await, FetchCode::TimeoutTotal);
    for number in number + 1..number + 2000 {
        visit(&fetcher, &small, number).await.expect("a page");
    }
    let grown = peak_kib() - before;
    assert!(grown < MAX_GROWTH_KIB, "grew by {grown} KiB, the limit is {MAX_GROWTH_KIB}");
}
