//! Clients that mean ill or are in trouble: who reads nothing, rests, or takes all connections, and what that costs the others.

use crate::{
    lab::Lab,
    limits::{exchange, listen},
};
use axum::{Router, routing::get};
use crawlway_flow::Stop;
use crawlway_gateway::{Access, Limits, bind};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

/// Nothing here takes this long.
const LIMIT: Duration = Duration::from_secs(60);

fn asking(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
}

/// Asks one question after the other without reading an answer, until the other side has had enough.
async fn never_reads(address: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let many = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").repeat(100);
    while stream.write_all(many.as_bytes()).await.is_ok() {}
}

/// A listener with answers of this many bytes at `/large`.
async fn large(bytes: usize, limits: Limits) -> (SocketAddr, Stop, JoinHandle<()>) {
    let router = Router::new().route("/large", get(move || async move { vec![b'x'; bytes] }));
    let access = Access { setting: "gateway.listen", token: false, open_to_all: false };
    let listening = bind("127.0.0.1:0".parse().unwrap(), access).await.unwrap();
    let (address, stop) = (listening.address(), Stop::default());
    (address, stop.clone(), tokio::spawn(listening.serve(router, limits, stop)))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_read_are_cut_off() {
    let lab = Lab::idle().await;
    let limits = Limits { taken_within: Duration::from_millis(300), ..Limits::default() };
    let (address, serving) = listen(&lab, limits).await;
    let clients = (0..50).map(|_| never_reads(address, "/metrics"));
    let cut = tokio::time::timeout(LIMIT, futures::future::join_all(clients)).await;
    cut.expect("clients that read nothing must not be held");
    lab.parts.stop.request();
    serving.await.unwrap();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_slowly_gets_its_answer_whole() {
    let limits = Limits { taken_within: Duration::from_secs(1), ..Limits::default() };
    let size = 4 << 20;
    let (address, stop, serving) = large(size, limits).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(asking(address, "/large").as_bytes()).await.unwrap();
    // Longer than a client may take nothing at all.
    let (began, mut read, mut part) = (Instant::now(), 0, vec![0; 128 << 10]);
    loop {
        let bytes = stream.read(&mut part).await.expect("who reads slowly is not cut off");
        if bytes == 0 {
            break;
        }
        read += bytes;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(read >= size, "{read} bytes in {:?}", began.elapsed());
    assert!(began.elapsed() > Duration::from_secs(1));
    stop.request();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_reads_takes_no_more_memory_than_is_set_aside() {
    let limits = Limits { unread: 6 << 20, taken_within: Duration::from_secs(5), ..Limits::default() };
    let (address, stop, serving) = large(4 << 20, limits).await;
    let mut silent = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(asking(address, "/large").as_bytes()).await.unwrap();
        // It has begun to answer, and waits.
        stream.readable().await.unwrap();
        silent.push(stream);
    }
    let refused = exchange(address, &asking(address, "/large")).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("problem:overloaded"), "{refused}");
    assert!(refused.contains("retry-after: "), "{refused}");
    drop(silent);
    let began = Instant::now();
    while !exchange(address, &asking(address, "/large")).await.starts_with("HTTP/1.1 200 OK\r\n") {
        assert!(began.elapsed() < LIMIT, "what is held for who has gone must be let go of");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.request();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_rests_between_two_requests_is_closed() {
    let lab = Lab::idle().await;
    let limits = Limits { head_within: Duration::from_millis(300), ..Limits::default() };
    let (address, serving) = listen(&lab, limits).await;
    let answer = exchange(address, &format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    lab.parts.stop.request();
    serving.await.unwrap();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_answered_when_all_connections_are_taken_and_everything_else_is_refused() {
    let lab = Lab::idle().await;
    let limits = Limits { connections: 2, spare: 4, ..Limits::default() };
    let (address, serving) = listen(&lab, limits).await;
    let mut silent = Vec::new();
    // All places, and more than the spare ones.
    for _ in 0..20 {
        silent.push(TcpStream::connect(address).await.unwrap());
        for path in ["/health/live", "/health/ready"] {
            let answer = exchange(address, &asking(address, path)).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        }
    }
    let refused = exchange(address, &asking(address, "/api/crawls")).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("problem:overloaded"), "{refused}");
    assert!(refused.contains("retry-after: ") && refused.contains("x-request-id: "), "{refused}");
    silent.clear();
    let began = Instant::now();
    while !exchange(address, &asking(address, "/api/crawls")).await.starts_with("HTTP/1.1 200 OK\r\n") {
        assert!(began.elapsed() < LIMIT, "the places of who has gone must be free again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lab.parts.stop.request();
    serving.await.unwrap();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_the_connections_of_the_others() {
    let lab = Lab::idle().await;
    let limits = Limits { connections: 10, per_peer: 2, ..Limits::default() };
    let (address, serving) = listen(&lab, limits).await;
    let from = async |peer: &str| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{peer}:0").parse().unwrap()).unwrap();
        socket.connect(address).await.unwrap()
    };
    let _held = [from("127.0.0.1").await, from("127.0.0.1").await];
    let refused = exchange(address, &asking(address, "/api/crawls")).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    let mut other = from("127.0.0.2").await;
    other.write_all(asking(address, "/api/crawls").as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(LIMIT, other.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    lab.parts.stop.request();
    serving.await.unwrap();
    lab.end().await;
}
