//! Minimal HTTP server for tests: several hosts on loopback with one port.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// Request of a client.
#[derive(Debug)]
pub struct Request {
    /// Host that was connected to.
    pub host: Ipv4Addr,
    /// Path and query.
    pub path: String,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
}

/// Serves hosts until the process ends, and returns their port: the given one, or, if that is 0, one that is free on all hosts.
/// The function returns a complete response. A response with `connection: close` is the last one of its connection, and so is
/// an empty one.
///
/// # Panics
/// If there is no free port.
pub fn serve(
    hosts: &[Ipv4Addr],
    port: u16,
    responder: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static,
) -> u16 {
    let listeners = (0..100).find_map(|_| {
        let first = TcpListener::bind((hosts[0], port)).ok()?;
        let port = first.local_addr().ok()?.port();
        let others = hosts[1..].iter().map(|host| TcpListener::bind((*host, port)).ok());
        Some((port, [Some(first)].into_iter().chain(others).collect::<Option<Vec<_>>>()?))
    });
    let (port, listeners) = listeners.unwrap_or_else(|| panic!("no port is free on {hosts:?}"));
    let responder = Arc::new(responder);
    for (host, listener) in hosts.iter().copied().zip(listeners) {
        let responder = responder.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let responder = responder.clone();
                thread::spawn(move || converse(&stream, host, &*responder));
            }
        });
    }
    port
}

/// HTTP response with this body.
pub fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn converse(mut stream: &TcpStream, host: Ipv4Addr, responder: &dyn Fn(&Request) -> Vec<u8>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
        let mut headers = Vec::new();
        loop {
            match lines.next() {
                Some(line) if line.is_empty() => break,
                Some(line) => {
                    let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
                    headers.push((name.to_ascii_lowercase(), value.to_owned()));
                }
                None => return,
            }
        }
        let response = responder(&Request { host, path, headers });
        let head = response.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(0);
        let is_last = String::from_utf8_lossy(&response[..head]).contains("connection: close");
        if stream.write_all(&response).is_err() || is_last || head == 0 {
            return;
        }
    }
}
