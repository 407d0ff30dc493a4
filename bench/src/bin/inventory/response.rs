//! Reads just enough of an answer: its status, where it ends, and whether it says when to come back.

use anyhow::{Context, bail};

/// The head of an answer, all of which has come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Where its body begins, and ends.
    pub(crate) body: (usize, usize),
    /// It has the header `Retry-After`.
    pub(crate) says_when: bool,
}

/// The answer at the start of these bytes, once it is whole.
pub(crate) fn whole(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
    let Some(head) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
    let (mut length, mut says_when) = (None::<usize>, false);
    for line in bytes[..head].split(|octet| *octet == b'\n').skip(1) {
        let Some(colon) = line.iter().position(|octet| *octet == b':') else { continue };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"content-length") {
            length = std::str::from_utf8(&value[1..]).ok().and_then(|value| value.trim().parse().ok());
        }
        says_when |= name.eq_ignore_ascii_case(b"retry-after");
    }
    let status = bytes.get(9..12).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    let status = status.context("an answer begins with `HTTP/1.1` and its status")?;
    let Some(length) = length else { bail!("an answer with status {status} has no `Content-Length`") };
    let body = (head + 4, head + 4 + length);
    Ok((bytes.len() >= body.1).then_some(Answer { status, body, says_when }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let bytes = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\ncontent-length: 3\r\n\r\nabc";
        for cut in 0..bytes.len() {
            assert_eq!(whole(&bytes[..cut]).unwrap(), None, "{cut} bytes");
        }
        let answer = whole(bytes).unwrap().unwrap();
        assert_eq!((answer.status, answer.says_when), (503, true));
        assert_eq!(&bytes[answer.body.0..answer.body.1], b"abc");
        let plain = whole(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").unwrap().unwrap();
        assert_eq!((plain.status, plain.says_when), (202, false));
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(whole(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(whole(b"nonsense\r\n\r\n").is_err());
    }
}
