//! Request template: the bytes are built once, and only a number in them changes.

use std::net::SocketAddr;

/// Digits of the number.
const DIGITS: usize = 10;

/// Request template.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    number_at: Option<usize>,
    next: u64,
}

impl Request {
    /// GET of a path.
    pub(crate) fn get(address: SocketAddr, path: &str) -> Self {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        Self { bytes: head.into_bytes(), number_at: None, next: 0 }
    }

    /// POST of URLs with this prefix, each with another number.
    pub(crate) fn post(address: SocketAddr, url: &str) -> Self {
        let before = format!("{{\"url\":\"{url}");
        let length = before.len() + DIGITS + 2;
        let head = format!(
            "POST /api/urls HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let number_at = head.len() + before.len();
        let bytes = format!("{head}{before}{:0DIGITS$}\"}}", 0).into_bytes();
        Self { bytes, number_at: Some(number_at), next: 0 }
    }

    /// Bytes of the next request.
    pub(crate) fn next(&mut self) -> &[u8] {
        if let Some(at) = self.number_at {
            let mut rest = self.next;
            for digit in self.bytes[at..at + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            self.next += 1;
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_post_has_another_url_and_the_right_length() {
        let mut request = Request::post(([127, 0, 0, 1], 81).into(), "http://a.example/");
        let texts: Vec<String> =
            (0..12).map(|_| String::from_utf8(request.next().to_vec()).unwrap()).collect();
        for (number, text) in texts.iter().enumerate() {
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(body, format!("{{\"url\":\"http://a.example/{number:010}\"}}"));
            assert!(
                head.contains(&format!("content-length: {}", body.len())) && head.contains("127.0.0.1:81")
            );
        }
    }
}
