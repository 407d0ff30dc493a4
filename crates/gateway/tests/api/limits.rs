//! Limits of bodies, times and connections, request ids, and the end; on a real listener where it matters.

use crate::lab::{Lab, request};
use axum::body::Body;
use crawlway_gateway::{Access, Limits, Options, bind};
use http::{Method, header};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_or_not_meant_so_is_a_problem_too() {
    let lab = Lab::idle().await;
    let problem = lab.get("/api/nothing").await.problem(404, "not-found");
    assert!(problem["detail"].as_str().unwrap().contains("/api/nothing"), "{problem}");
    lab.delete("/").await.problem(405, "method");
    let answer = lab.delete("/api/crawls").await;
    answer.problem(405, "method");
    let allowed = answer.header(header::ALLOW);
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_refused() {
    let lab = Lab::idle().await;
    let body = format!("{{\"seeds\":[\"http://a.test/{}\"]}}", "x".repeat(1 << 20));
    lab.post_text("/api/crawls", &body).await.problem(413, "too-large");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_announced_beyond_the_limit_is_refused_before_it_is_sent() {
    let lab = Lab::idle().await;
    let (address, serving) = listen(&lab, Limits::default()).await;
    let head = format!(
        "POST /api/crawls HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        8 << 20
    );
    let answer = exchange(address, &head).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("problem:too-large"), "{answer}");
    // Who sends it all without looking is told as well.
    let answer = exchange(address, &format!("{head}{}", "x".repeat(8 << 20))).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("problem:too-large"), "{answer}");
    lab.parts.stop.request();
    serving.await.unwrap();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_taken_over_if_it_can_do_no_harm() {
    let lab = Lab::idle().await;
    let with = async |id: &str| {
        let request = request(Method::GET, "/api/nothing").header("x-request-id", id);
        lab.send(request.body(Body::empty()).unwrap()).await.problem(404, "not-found")["instance"].clone()
    };
    assert_eq!(with("mine-1.2_3").await, "mine-1.2_3");
    for id in ["", "two words", "<script>", &"x".repeat(65)] {
        let made = with(id).await;
        assert_ne!(made, id);
        assert_eq!(made.as_str().unwrap().len(), 36);
    }
    lab.end().await;
}

/// A real listener.
pub(crate) async fn listen(lab: &Lab, limits: Limits) -> (SocketAddr, JoinHandle<()>) {
    let access = Access { setting: "gateway.listen", token: false, open_to_all: false };
    let listening = bind("127.0.0.1:0".parse().unwrap(), access).await.unwrap();
    let address = listening.address();
    (address, tokio::spawn(listening.serve(lab.router.clone(), limits, lab.parts.stop.clone())))
}

/// Sends this and reads until the other side closes.
pub(crate) async fn exchange(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may well have closed before it has read everything.
    let _ = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer));
    let _ = reading.await.expect("the other side must close");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_answers_on_a_real_connection_and_ends_when_asked_to() {
    let lab = Lab::idle().await;
    let (address, serving) = listen(&lab, Limits::default()).await;
    let answer = exchange(
        address,
        &format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("{\"live\":true}"), "{answer}");
    // One that rests does not hold up the end.
    let resting = TcpStream::connect(address).await.unwrap();
    lab.parts.stop.request();
    tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
    drop(resting);
    assert!(TcpStream::connect(address).await.is_err());
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_does_not_wait_longer_than_its_deadline() {
    let lab = Lab::idle().await;
    let limits = Limits { drain: Duration::from_millis(200), ..Limits::default() };
    let (address, serving) = listen(&lab, limits).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /api/crawls HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    lab.parts.stop.request();
    tokio::time::timeout(Duration::from_secs(5), serving).await.unwrap().unwrap();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_slow_or_too_large_ends_the_connection() {
    let lab = Lab::idle().await;
    let limits = Limits { head_within: Duration::from_millis(200), ..Limits::default() };
    let (address, serving) = listen(&lab, limits).await;
    exchange(address, "GET /health/live HTTP/1.1\r\nhost: loc").await;
    let large =
        format!("GET /health/live HTTP/1.1\r\nhost: {address}\r\nx: {}\r\n\r\n", "x".repeat(64 << 10));
    let answer = exchange(address, &large).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    lab.parts.stop.request();
    serving.await.unwrap();
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_ready_in_time_is_a_problem() {
    let lab = Lab::with(Options { time_limit: Duration::from_millis(100), ..Options::default() }).await;
    // The body never ends.
    let never = Body::from_stream(futures::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
    let request = request(Method::POST, "/api/crawls").header(header::CONTENT_TYPE, "application/json");
    let answer = lab.send(request.body(never).unwrap()).await;
    answer.problem(503, "took-too-long");
    lab.end().await;
}
