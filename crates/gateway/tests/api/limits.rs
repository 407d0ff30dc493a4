//! Limits of bodies, times and headers, request ids, and graceful shutdown; on a real listener where needed.

use crate::harness::{TestGateway, request};
use axum::body::Body;
use crawlway_gateway::{AccessControl, ConnectionLimits, RouterOptions, bind};
use http::{Method, header};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_and_methods_are_problems() {
    let gateway = TestGateway::idle().await;
    let problem = gateway.get("/api/nothing").await.problem(404, "no-route");
    assert!(problem["detail"].as_str().unwrap().contains("/api/nothing"), "{problem}");
    gateway.delete("/").await.problem(405, "method");
    let answer = gateway.delete("/api/crawls").await;
    answer.problem(405, "method");
    let allowed = answer.header(header::ALLOW);
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_refused() {
    let gateway = TestGateway::idle().await;
    let body = format!("{{\"seeds\":[\"http://a.test/{}\"]}}", "x".repeat(1 << 20));
    gateway.post_text("/api/crawls", &body).await.problem(413, "too-large");
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_length_beyond_the_limit_is_refused_before_the_body_is_sent() {
    let gateway = TestGateway::idle().await;
    let (address, serving) = listen(&gateway, ConnectionLimits::default()).await;
    let head = format!(
        "POST /api/crawls HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        8 << 20
    );
    let answer = exchange(address, &head).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("problem:too-large"), "{answer}");
    // A client that sends the whole body first gets the response as well.
    let answer = exchange(address, &format!("{head}{}", "x".repeat(8 << 20))).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("problem:too-large"), "{answer}");
    gateway.shut_down_listener(serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_safe_request_id_of_the_client_is_used() {
    let gateway = TestGateway::idle().await;
    let with = async |id: &str| {
        let request = request(Method::GET, "/api/nothing").header("x-request-id", id);
        gateway.send(request.body(Body::empty()).unwrap()).await.problem(404, "no-route")["instance"].clone()
    };
    assert_eq!(with("mine-1.2_3").await, "mine-1.2_3");
    for id in ["", "two words", "<script>", &"x".repeat(65)] {
        let generated = with(id).await;
        assert_ne!(generated, id);
        assert_eq!(generated.as_str().unwrap().len(), 36);
    }
    gateway.shut_down().await;
}

/// Serves the gateway on a real listener.
pub(crate) async fn listen(gateway: &TestGateway, limits: ConnectionLimits) -> (SocketAddr, JoinHandle<()>) {
    let access = AccessControl { setting: "gateway.listen", token: false, allow_unauthenticated: false };
    let listening = bind("127.0.0.1:0".parse().unwrap(), access).await.unwrap();
    let address = listening.address();
    (address, tokio::spawn(listening.serve(gateway.router.clone(), limits, gateway.context.stop.clone())))
}

/// Sends a text and reads until the gateway closes the connection.
pub(crate) async fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The gateway may close before it has read everything.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer));
    let _ = reading.await.expect("the gateway must close the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_connection_is_served_and_an_idle_one_does_not_delay_shutdown() {
    let gateway = TestGateway::idle().await;
    let (address, serving) = listen(&gateway, ConnectionLimits::default()).await;
    let answer = exchange(
        address,
        &format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("{\"live\":true}"), "{answer}");
    let idle = TcpStream::connect(address).await.unwrap();
    gateway.context.stop.request();
    tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
    drop(idle);
    assert!(TcpStream::connect(address).await.is_err());
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_closes_connections_after_the_drain_timeout() {
    let gateway = TestGateway::idle().await;
    let limits = ConnectionLimits { drain: Duration::from_millis(200), ..ConnectionLimits::default() };
    let (address, serving) = listen(&gateway, limits).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/crawls HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    gateway.context.stop.request();
    tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
    gateway.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_or_large_header_closes_the_connection() {
    let gateway = TestGateway::idle().await;
    let limits =
        ConnectionLimits { header_timeout: Duration::from_millis(200), ..ConnectionLimits::default() };
    let (address, serving) = listen(&gateway, limits).await;
    exchange(address, "GET /health/live HTTP/1.1\r\nhost: loc").await;
    let large =
        format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\nx: {}\r\n\r\n", "x".repeat(64 << 10));
    let answer = exchange(address, &large).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    gateway.shut_down_listener(serving).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_times_out_is_a_problem() {
    let gateway = TestGateway::with(RouterOptions {
        request_timeout: Duration::from_millis(100),
        ..RouterOptions::default()
    })
    .await;
    // The body never ends.
    let never = Body::from_stream(futures::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
    let request = request(Method::POST, "/api/crawls").header(header::CONTENT_TYPE, "application/json");
    let answer = gateway.send(request.body(never).unwrap()).await;
    answer.problem(503, "took-too-long");
    gateway.shut_down().await;
}
