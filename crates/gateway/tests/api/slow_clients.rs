//! Hostile and slow clients: no reads, idle connections, and exhausted connection limits.

use crate::{
    harness::TestGateway,
    limits::{exchange, listen},
};
use axum::{Router, routing::get};
use crawlway_flow::Shutdown;
use crawlway_gateway::{AccessControl, ConnectionLimits, bind};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

/// Timeout of a test step.
const TIMEOUT: Duration = Duration::from_secs(60);

fn get_request(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
}

/// Sends requests without reading a response until the gateway closes the connection.
async fn never_reads(address: SocketAddr, path: &str) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let many = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").repeat(100);
    while stream.write_all(many.as_bytes()).await.is_ok() {}
}

/// Serves responses of this size at `/large`.
async fn serve_large(bytes: usize, limits: ConnectionLimits) -> (SocketAddr, Shutdown, JoinHandle<()>) {
    let router = Router::new().route("/large", get(move || async move { vec![b'x'; bytes] }));
    let access = AccessControl { setting: "gateway.listen", token: false, allow_unauthenticated: false };
    let listening = bind("127.0.0.1:0".parse().unwrap(), access).await.unwrap();
    let (address, stop) = (listening.address(), Shutdown::default());
    (address, stop.clone(), tokio::spawn(listening.serve(router, limits, stop)))
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_never_read_are_disconnected() {
    let gateway = TestGateway::idle().await;
    let limits =
        ConnectionLimits { write_timeout: Duration::from_millis(300), ..ConnectionLimits::default() };
    let (address, serving) = listen(&gateway, limits).await;
    let clients = (0..50).map(|_| never_reads(address, "/metrics"));
    let disconnected = tokio::time::timeout(TIMEOUT, futures::future::join_all(clients)).await;
    disconnected.expect("a client that reads nothing must be disconnected");
    gateway.shut_down_listener(serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_gets_the_complete_response() {
    let limits = ConnectionLimits { write_timeout: Duration::from_secs(1), ..ConnectionLimits::default() };
    let size = 4 << 20;
    let (address, stop, serving) = serve_large(size, limits).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(get_request(address, "/large").as_bytes()).await.unwrap();
    // Slower in total than the write timeout.
    let (began, mut read, mut part) = (Instant::now(), 0, vec![0; 128 << 10]);
    loop {
        let bytes = stream.read(&mut part).await.expect("a slow client is not disconnected");
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
async fn unread_responses_stay_within_their_memory_limit() {
    let limits = ConnectionLimits {
        max_unread_bytes: 6 << 20,
        write_timeout: Duration::from_secs(5),
        ..ConnectionLimits::default()
    };
    let (address, stop, serving) = serve_large(4 << 20, limits).await;
    let mut silent = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(get_request(address, "/large").as_bytes()).await.unwrap();
        // The response has started.
        stream.readable().await.unwrap();
        silent.push(stream);
    }
    let refused = exchange(address, &get_request(address, "/large")).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("problem:overloaded"), "{refused}");
    assert!(refused.contains("retry-after: "), "{refused}");
    drop(silent);
    let began = Instant::now();
    while !exchange(address, &get_request(address, "/large")).await.starts_with("HTTP/1.1 200 OK\r\n") {
        assert!(began.elapsed() < TIMEOUT, "the memory of closed connections must be released");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.request();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed() {
    let gateway = TestGateway::idle().await;
    let limits =
        ConnectionLimits { header_timeout: Duration::from_millis(300), ..ConnectionLimits::default() };
    let (address, serving) = listen(&gateway, limits).await;
    let answer = exchange(address, &format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    gateway.shut_down_listener(serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_are_served_when_all_connections_are_in_use() {
    let gateway = TestGateway::idle().await;
    let limits = ConnectionLimits { connections: 2, health_connections: 4, ..ConnectionLimits::default() };
    let (address, serving) = listen(&gateway, limits).await;
    let mut silent = Vec::new();
    // More than all connections, including those for health checks.
    for _ in 0..20 {
        silent.push(TcpStream::connect(address).await.unwrap());
        for path in ["/health/live", "/health/ready"] {
            let answer = exchange(address, &get_request(address, path)).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        }
    }
    let refused = exchange(address, &get_request(address, "/api/crawls")).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("problem:overloaded"), "{refused}");
    assert!(refused.contains("retry-after: ") && refused.contains("x-request-id: "), "{refused}");
    silent.clear();
    let began = Instant::now();
    while !exchange(address, &get_request(address, "/api/crawls")).await.starts_with("HTTP/1.1 200 OK\r\n") {
        assert!(began.elapsed() < TIMEOUT, "the slots of closed connections must be released");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gateway.shut_down_listener(serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_use_all_connections() {
    let gateway = TestGateway::idle().await;
    let limits = ConnectionLimits { connections: 10, per_peer: 2, ..ConnectionLimits::default() };
    let (address, serving) = listen(&gateway, limits).await;
    let from = async |peer: &str| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{peer}:0").parse().unwrap()).unwrap();
        socket.connect(address).await.unwrap()
    };
    let _held = [from("127.0.0.1").await, from("127.0.0.1").await];
    let refused = exchange(address, &get_request(address, "/api/crawls")).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    let mut other = from("127.0.0.2").await;
    other.write_all(get_request(address, "/api/crawls").as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(TIMEOUT, other.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    gateway.shut_down_listener(serving).await;
}
