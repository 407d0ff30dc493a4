//! Minimal parser of HTTP responses: status, body and `Retry-After`.

use anyhow::{Context, bail};

/// Complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Range of the body.
    pub(crate) body: (usize, usize),
    /// Whether it has the header `Retry-After`.
    pub(crate) has_retry_after: bool,
}

/// Response at the start of these bytes; `None` while it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> anyhow::Result<Option<Response>> {
    let Some(header) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
    let (mut length, mut has_retry_after) = (None::<usize>, false);
    for line in bytes[..header].split(|octet| *octet == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|octet| *octet == b':') else { continue };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"content-length") {
            length = std::str::from_utf8(&value[1..]).ok().and_then(|value| value.trim().parse().ok());
        }
        has_retry_after |= name.eq_ignore_ascii_case(b"retry-after");
    }
    let status = bytes.get(9..12).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    let status = status.context("a response without an HTTP status")?;
    let Some(length) = length else { bail!("a response with status {status} and no `Content-Length`") };
    let body = (header + 4, header + 4 + length);
    Ok((bytes.len() >= body.1).then_some(Response { status, body, has_retry_after }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_parsed_once_it_is_complete() {
        let bytes = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\ncontent-length: 3\r\n\r\nabc";
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]).unwrap(), None, "{cut} bytes");
        }
        let response = parse(bytes).unwrap().unwrap();
        assert_eq!((response.status, response.has_retry_after), (503, true));
        assert_eq!(&bytes[response.body.0..response.body.1], b"abc");
        let plain = parse(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").unwrap().unwrap();
        assert_eq!((plain.status, plain.has_retry_after), (202, false));
    }

    #[test]
    fn an_invalid_response_is_an_error() {
        assert!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(parse(b"nonsense\r\n\r\n").is_err());
    }
}
