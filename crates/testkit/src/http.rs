//! Minimal HTTP client for tests.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Read timeout of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request to an address such as `127.0.0.1:8081`, and returns status and body of the response. Each header is a line
/// such as `authorization: Basic …`.
///
/// # Errors
/// If the connection fails, or the response is not HTTP.
pub fn request(
    address: &str,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    // HTTP/1.0 has neither chunked bodies nor keep-alive.
    let mut request = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\n");
    for header in headers.iter().chain(&["content-type: application/json"]) {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let response = String::from_utf8_lossy(&response);
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    match status {
        Some(status) => Ok((status, body.to_owned())),
        None => Err(io::Error::other(format!("`{method} {path}`: expected HTTP, got `{response}`"))),
    }
}
