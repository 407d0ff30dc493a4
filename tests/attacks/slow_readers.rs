//! Clients that send requests and never read responses: their connections are closed, and health stays available.

use crate::web::program;
use crawlway_testkit::process::{Process, wait_until};
use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
    time::{Duration, Instant},
};

/// Connections from one address; the gateway accepts 256.
const CONNECTIONS: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(60);

fn is_live(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let sent = stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut start = [0; 12];
    sent.is_ok() && stream.read_exact(&mut start).is_ok() && start == *b"HTTP/1.1 200"
}

#[test]
fn connections_that_never_read_are_closed_while_health_stays_available() {
    let home = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut up = program(home.path(), &["up"]);
    up.env("CRAWLWAY_GATEWAY__LISTEN", format!("127.0.0.1:{port}")).stdout(Stdio::null());
    let _service = Process::start(&mut up);
    wait_until("the gateway starts", TIMEOUT, || is_live(port));
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    let connections: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(&request);
            stream
        })
        .collect();
    // A write to a closed connection fails.
    let is_closed = |mut stream: &TcpStream| {
        stream
            .write(b"GET /metrics HTTP/1.1\r\n")
            .is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
    };
    let began = Instant::now();
    loop {
        assert!(is_live(port), "no health response after {:?}", began.elapsed());
        let open = connections.iter().filter(|stream| !is_closed(stream)).count();
        if open == 0 {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{open} of {CONNECTIONS} connections are open");
        std::thread::sleep(Duration::from_millis(500));
    }
}
