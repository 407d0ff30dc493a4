//! A web of many hosts on one port, whose answers are functions.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// What a host answers to a path: the whole response.
pub(crate) type Answers = dyn Fn(Ipv4Addr, &str) -> Vec<u8> + Send + Sync;

pub(crate) struct Web {
    pub(crate) port: u16,
}

impl Web {
    /// Serves these hosts on any port that is free for all of them, as long as the test lasts.
    pub(crate) fn serve(hosts: &[Ipv4Addr], answers: Arc<Answers>) -> Self {
        let listeners = (0..50).find_map(|_| {
            let first = TcpListener::bind((hosts[0], 0)).ok()?;
            let port = first.local_addr().ok()?.port();
            let others = hosts[1..].iter().map(|host| TcpListener::bind((*host, port)).ok());
            Some((port, [Some(first)].into_iter().chain(others).collect::<Option<Vec<_>>>()?))
        });
        let (port, listeners) = listeners.expect("a port that is free for all hosts");
        for (host, listener) in hosts.iter().copied().zip(listeners) {
            let answers = answers.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let answers = answers.clone();
                    thread::spawn(move || answer(stream, host, &*answers));
                }
            });
        }
        Self { port }
    }

    pub(crate) fn url(&self, host: Ipv4Addr, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }
}

/// Answers one request, and closes.
fn answer(stream: TcpStream, host: Ipv4Addr, answers: &Answers) {
    let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
    if lines.by_ref().any(|line| line.is_empty()) {
        let _ = (&stream).write_all(&answers(host, &path));
    }
}

/// A response with this body.
pub(crate) fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut whole =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len())
            .into_bytes();
    whole.extend_from_slice(body);
    whole
}
