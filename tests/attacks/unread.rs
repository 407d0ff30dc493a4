//! Clients that ask and never read: they hold neither the gateway nor its health.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_crawlway");
/// Connections of one address; the gateway takes 256 of them.
const MANY: usize = 200;
const LIMIT: Duration = Duration::from_secs(60);

/// The service, killed when the test ends.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_live(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let asked =
        stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut start = [0; 12];
    asked.is_ok() && stream.read_exact(&mut start).is_ok() && start == *b"HTTP/1.1 200"
}

#[test]
fn connections_that_never_read_are_cut_off_and_health_is_answered_meanwhile() {
    let home = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut up = Command::new(PROGRAM);
    up.args(["up", "--data"]).arg(home.path().join("data")).current_dir(home.path()).env_clear();
    up.env("CRAWLWAY_GATEWAY__LISTEN", format!("127.0.0.1:{port}"));
    let _service = Service(up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while !is_live(port) {
        assert!(began.elapsed() < LIMIT, "it does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    let connections: Vec<TcpStream> = (0..MANY)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = stream.write(&request);
            stream
        })
        .collect();
    // A connection that was cut off takes nothing more.
    let is_cut = |mut stream: &TcpStream| {
        stream
            .write(b"GET /metrics HTTP/1.1\r\n")
            .is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
    };
    let began = Instant::now();
    loop {
        assert!(is_live(port), "health is answered after {:?}", began.elapsed());
        let held = connections.iter().filter(|stream| !is_cut(stream)).count();
        if held == 0 {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{held} of {MANY} connections are held");
        std::thread::sleep(Duration::from_millis(500));
    }
}
