//! One request, one answer: for tests that ask a server as any program would.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Nothing that a test asks for takes this long.
const LIMIT: Duration = Duration::from_secs(60);

/// Asks the server at an address such as `127.0.0.1:8081`, and says the status and the body of the answer. Each header is a
/// line such as `authorization: Basic …`.
///
/// # Errors
/// If nobody is there, or what answers does not speak HTTP.
pub fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // The older version, in which a body is neither cut into chunks nor followed by another answer.
    let mut request = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\n");
    for header in headers.iter().chain(&["content-type: application/json"]) {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    match status {
        Some(status) => Ok((status, body.to_owned())),
        None => Err(io::Error::other(format!("`{method} {path}` was answered with `{answer}`"))),
    }
}
