//! What hostile servers can make the fetcher keep in memory: little, however much they send.
//!
//! One test in a process of its own, since it reads the most memory that the process ever had.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "hostile/server.rs"]
mod server;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "hostile/setup.rs"]
mod setup;

use crawlway_fetch::{Code, Fetcher};
use server::{Server, for_ever, page, request as read_request};
use setup::{expect, fetcher, limits, request, within};
use std::io::Write;
use tokio::io::AsyncWriteExt;

/// Rounds of each case: what is not given back adds up.
const ROUNDS: usize = 20;

/// One body as it is sent, the same decompressed while its vector grows, and the allocator's slack.
const BOUND_KIB: usize = 32 << 10;

fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this system has /proc");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// A stream of zeros that is far larger than allowed, made without ever being whole in memory.
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

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd_bomb() -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("an encoder");
    bomb(&mut encoder, 500);
    encoder.finish().expect("memory")
}

async fn encoded(encoding: &str, body: &[u8]) -> Server {
    Server::saying(page("200 OK", &format!("content-encoding: {encoding}\r\n"), body)).await
}

#[tokio::test]
async fn hostile_servers_cannot_fill_the_memory() {
    let endless = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        for_ever(&mut stream, &[b'x'; 16 << 10]).await;
    })
    .await;
    let flood = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        for_ever(&mut stream, format!("x-{}: {}\r\n", "n".repeat(50), "v".repeat(2000)).as_bytes()).await;
    })
    .await;
    let line = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        for_ever(&mut stream, &[b'H'; 16 << 10]).await;
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
    // Those that send little are to leave little behind, too.
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let liars = [
        (
            Server::saying("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n").await,
            Code::RedirectLoop,
        ),
        (
            Server::saying("HTTP/1.1 302 Found\r\nlocation: http://[::1]/\r\ncontent-length: 0\r\n\r\n")
                .await,
            Code::GuardPrivateAddress,
        ),
        (Server::saying("SSH-2.0-OpenSSH_9.2\r\n").await, Code::HttpProtocol),
        (Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this").await, Code::HttpLength),
        (Server::saying(format!("{chunked}ff\r\nonly this")).await, Code::HttpLength),
        (Server::saying("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await, Code::BodyTooLarge),
        (Server::saying("").await, Code::Reset),
    ];
    let drip = Server::start(|mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let small = Server::answering(|path| page("200 OK", "", path.as_bytes())).await;
    let visit = async |fetcher: &Fetcher, server: &Server, number: usize| {
        let url = format!("http://host-{number}.test:{}/", server.address.port());
        within(fetcher, &request(&url)).await
    };

    let fetcher = fetcher();
    // What is set up once, such as the tables of a decoder, is no growth.
    for number in 0..10 {
        visit(&fetcher, &small, number).await.expect("a page");
    }
    let before = peak_kib();
    let mut number = 10;
    for _ in 0..ROUNDS {
        // Each in a group of its own, since a group that fails is left alone for a while.
        let mut next = || {
            number += 1;
            number
        };
        expect(visit(&fetcher, &endless, next()).await, Code::BodyTooLarge);
        expect(visit(&fetcher, &flood, next()).await, Code::HeadersTooLarge);
        let error = visit(&fetcher, &line, next()).await.expect_err("no HTTP");
        assert!(matches!(error.code, Code::HttpProtocol | Code::HeadersTooLarge), "{error}");
        for (liar, code) in &liars {
            expect(visit(&fetcher, liar, next()).await, *code);
        }
        for bomb in &bombs {
            expect(visit(&fetcher, bomb, next()).await, Code::BodyBomb);
        }
    }
    number += 1;
    expect(visit(&fetcher, &drip, number).await, Code::TimeoutTotal);
    for number in number + 1..number + 2000 {
        visit(&fetcher, &small, number).await.expect("a page");
    }
    let grown = peak_kib() - before;
    assert!(grown < BOUND_KIB, "grew by {grown} KiB, the bound is {BOUND_KIB}");
}
