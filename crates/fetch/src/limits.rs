//! How long and how large an answer may be.

use std::time::Duration;

/// Bounds that hold for one fetch, whatever the server does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// From the look-up of the name to a connection that can be used.
    pub connect: Duration,
    /// From the request to the first byte of its answer.
    pub first_byte: Duration,
    /// Everything, redirects and robots.txt included; waiting for turns at the gate not.
    pub total: Duration,
    /// The answer's headers, in bytes; 8 KiB at least.
    pub header_bytes: usize,
    /// How many headers.
    pub header_count: usize,
    /// The body as it is sent, in bytes.
    pub body_bytes: usize,
    /// The body once it is decompressed, in bytes.
    pub decoded_bytes: usize,
    /// How many redirects are followed.
    pub redirects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(20),
            total: Duration::from_secs(60),
            header_bytes: 64 << 10,
            header_count: 200,
            body_bytes: 16 << 20,
            decoded_bytes: 64 << 20,
            redirects: 10,
        }
    }
}
