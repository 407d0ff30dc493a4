//! Charset of a document: byte order mark, then HTTP header, then `<meta>`, then detection.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// Size of the `<meta>` prescan, as in browsers.
const PRESCAN_BYTES: usize = 1024;

/// Bytes of a document that the detector reads; more rarely changes the result.
const DETECTION_BYTES: usize = 64 * 1024;

/// Decoded document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Text, borrowed if the bytes are UTF-8.
    pub text: Cow<'a, str>,
    /// Name of the encoding in the Encoding Standard, such as `UTF-8` or `windows-1252`.
    pub encoding: &'static str,
    /// Whether invalid bytes became U+FFFD.
    pub had_errors: bool,
}

/// Decodes `bytes`, the body of a response whose `Content-Type` was `content_type`.
#[must_use]
pub fn decode<'a>(bytes: &'a [u8], content_type: Option<&str>) -> Decoded<'a> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return decode_as(encoding, &bytes[mark..]);
    }
    if let Some(encoding) = content_type.and_then(|value| charset_parameter(value.as_bytes())) {
        return decode_as(encoding, bytes);
    }
    if let Some(encoding) = meta_charset(bytes) {
        return decode_as(encoding, bytes);
    }
    // Most undeclared documents are UTF-8, and this check is far cheaper than detection.
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Decoded { text: Cow::Borrowed(text), encoding: UTF_8.name(), had_errors: false };
    }
    decode_as(detect(bytes), bytes)
}

fn decode_as<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Decoded<'a> {
    // The `replacement` encoding protects browsers from scripts; here it would only lose the page.
    let encoding = if encoding == REPLACEMENT { WINDOWS_1252 } else { encoding };
    let (text, had_errors) = encoding.decode_without_bom_handling(bytes);
    Decoded { text, encoding: encoding.name(), had_errors }
}

fn detect(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    let head = &bytes[..bytes.len().min(DETECTION_BYTES)];
    detector.feed(head, head.len() == bytes.len());
    detector.guess(None, Utf8Detection::Allow)
}

/// Charset of `<meta charset=…>` or `<meta http-equiv=… content="…; charset=…">` near the start.
fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let mut head = &bytes[..bytes.len().min(PRESCAN_BYTES)];
    while let Some(open) = head.iter().position(|&byte| byte == b'<') {
        head = &head[open..];
        if head.starts_with(b"<!--") {
            let end = find(head, b"-->")?;
            head = &head[end + 3..];
            continue;
        }
        if !starts_with_meta(head) {
            head = &head[1..];
            continue;
        }
        let end = head.iter().position(|&byte| byte == b'>').unwrap_or(head.len());
        if let Some(encoding) = charset_parameter(&head[5..end]) {
            return Some(as_declared_in_ascii(encoding));
        }
        head = &head[end..];
    }
    None
}

fn starts_with_meta(tag: &[u8]) -> bool {
    tag.get(1..5).is_some_and(|name| name.eq_ignore_ascii_case(b"meta"))
        && tag.get(5).is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'/')
}

/// A declaration readable as ASCII is not in UTF-16.
fn as_declared_in_ascii(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

/// First known encoding in `charset = NAME`, quoted or not.
fn charset_parameter(text: &[u8]) -> Option<&'static Encoding> {
    let mut rest = text;
    while let Some(at) = find_ignoring_case(rest, b"charset") {
        rest = rest[at + 7..].trim_ascii_start();
        let Some(value) = rest.strip_prefix(b"=") else { continue };
        let value = value.trim_ascii_start();
        let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
        let ends = |byte: &u8| {
            byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b';' | b',' | b'/' | b'>')
        };
        let end = value.iter().position(ends).unwrap_or(value.len());
        if let Some(encoding) = Encoding::for_label(&value[..end]) {
            return Some(encoding);
        }
    }
    None
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn find_ignoring_case(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window.eq_ignore_ascii_case(needle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_charsets() {
        let name = |html: &str| meta_charset(html.as_bytes()).map(Encoding::name);
        assert_eq!(name("<meta charset=shift_jis>"), Some("Shift_JIS"));
        assert_eq!(
            name("<META http-equiv=Content-Type content='text/html; charset=koi8-r'>"),
            Some("KOI8-R")
        );
        assert_eq!(name("<!-- <meta charset=koi8-r> --><meta charset='gbk'>"), Some("GBK"));
        assert_eq!(name("<meta charset=utf-16le>"), Some("UTF-8"));
        assert_eq!(name("<metacharset=gbk>"), None);
        assert_eq!(name("<meta charset=no-such-thing>"), None);
        assert_eq!(name("<meta"), None);
    }
}
