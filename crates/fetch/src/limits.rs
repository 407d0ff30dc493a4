//! Limits of a fetch.

use std::time::Duration;

/// Timeouts and size limits of one fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connect timeout: DNS look-up, TCP connect and handshakes.
    pub connect: Duration,
    /// Timeout from the request to the first byte of the response.
    pub first_byte: Duration,
    /// Total timeout, redirects and robots.txt included; the wait for permits does not count.
    pub total: Duration,
    /// Maximum size of the response headers in bytes, at least 8 KiB.
    pub header_bytes: usize,
    /// Maximum number of response headers.
    pub max_headers: usize,
    /// Maximum size of the body on the wire in bytes.
    pub body_bytes: usize,
    /// Maximum size of the decompressed body in bytes.
    pub decoded_bytes: usize,
    /// Maximum number of redirects.
    pub redirects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(20),
            total: Duration::from_secs(60),
            header_bytes: 64 << 10,
            max_headers: 200,
            body_bytes: 16 << 20,
            decoded_bytes: 64 << 20,
            redirects: 10,
        }
    }
}
