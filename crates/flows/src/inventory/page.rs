//! Stored content of a response: headers, cookies, page source as text, and details.

use crawlway_content::charset::decode;
use crawlway_fetch::FetchResponse as Response;
use crawlway_store::inventory::{Cookie, FetchedContent, cookies, headers};
use http::header;
use serde_json::{Map, Value, json};

/// Size of the beginning of a body that is sniffed without a content type.
const SNIFFED_BYTES: usize = 1024;

/// Memory of a response while its source is decoded, as a multiple of its size: body and decoded text.
pub(super) const DECODE_MEMORY_FACTOR: usize = 3;

/// Stored content of a response: at most `max_source` bytes of the source, from at most `max_body` bytes of the body.
pub(super) fn content(response: &Response, max_source: usize, max_body: usize) -> FetchedContent {
    let lines = response.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let cookie_lines =
        response.headers.get_all(header::SET_COOKIE).iter().map(|line| Cookie::parse(line.as_bytes()));
    let content_type = response.headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let content_type = content_type.map(|value| String::from_utf8_lossy(value).into_owned());
    let mut details = Map::new();
    let mut add = |name: &str, value: Value| drop(details.insert(name.to_owned(), value));
    add("status_code", json!(response.status.as_u16()));
    add("final_url", json!(response.url.as_str()));
    add("content_type", json!(content_type));
    add("content_length", json!(response.body.len()));
    let hop =
        |hop: &crawlway_fetch::Hop| json!({ "url": hop.url.as_str(), "status_code": hop.status.as_u16() });
    add("redirects", response.hops.iter().map(hop).collect());
    let mut page_source = None;
    if is_text(content_type.as_deref(), &response.body) {
        let body = &response.body[..response.body.len().min(max_body)];
        let decoded = decode(body, content_type.as_deref());
        let mut text = decoded.text.into_owned();
        let truncated = text.len() > max_source || body.len() < response.body.len();
        text.truncate(text.floor_char_boundary(max_source));
        add("charset", json!(decoded.encoding));
        add("truncated", json!(truncated));
        page_source = Some(text);
    }
    FetchedContent {
        headers: Some(headers(lines)),
        cookies: Some(cookies(cookie_lines)),
        page_source,
        additional_details: details,
    }
}

/// Whether a body is text, by its content type, or else by its beginning.
fn is_text(content_type: Option<&str>, body: &[u8]) -> bool {
    let kind = content_type.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match kind.split_once('/') {
        Some(("text", _)) => true,
        Some((_, subtype)) if subtype.ends_with("+xml") || subtype.ends_with("+json") => true,
        Some(("application", subtype)) => matches!(
            subtype,
            "json"
                | "ld+json"
                | "xml"
                | "javascript"
                | "ecmascript"
                | "x-javascript"
                | "x-www-form-urlencoded"
                | "yaml"
                | "x-yaml"
                | "toml"
                | "graphql"
                | "sql"
                | "x-ndjson"
                | "jsonl"
                | "rtf"
        ),
        Some(_) => false,
        None => looks_like_text(&body[..body.len().min(SNIFFED_BYTES)]),
    }
}

/// Content sniffing as in browsers: text has a byte order mark or no binary octets.
fn looks_like_text(start: &[u8]) -> bool {
    let has_mark =
        [&[0xef, 0xbb, 0xbf][..], &[0xfe, 0xff], &[0xff, 0xfe]].iter().any(|mark| start.starts_with(mark));
    let binary = |octet: &u8| matches!(octet, 0..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    has_mark || !start.iter().any(binary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_fetch::Timing;
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};

    fn response(lines: &[(&str, &[u8])], body: &[u8]) -> Response {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        Response {
            url: "http://a.example/end".parse().unwrap(),
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers,
            body: body.to_vec().into(),
            wire_bytes: body.len(),
            hops: vec![crawlway_fetch::Hop {
                url: "http://a.example/".parse().unwrap(),
                status: StatusCode::FOUND,
            }],
            address: "127.0.0.1:80".parse().unwrap(),
            timing: Timing::default(),
            memory_reservation: crawlway_fetch::MemoryBudget::default().reserve(),
        }
    }

    #[test]
    fn a_page_is_stored_with_headers_cookies_and_decoded_source() {
        let page = response(
            &[
                ("content-type", b"text/html; charset=iso-8859-1"),
                ("via", b"a"),
                ("via", b"b"),
                ("set-cookie", b"id=1; Path=/; HttpOnly"),
                ("set-cookie", b"theme=dark"),
                ("x-odd", b"caf\xe9"),
            ],
            b"<p>caf\xe9</p>",
        );
        let stored = content(&page, 1000, 1000);
        assert_eq!(stored.page_source.as_deref(), Some("<p>café</p>"));
        assert_eq!(
            Value::Object(stored.headers.unwrap()),
            json!({ "content-type": "text/html; charset=iso-8859-1", "via": ["a", "b"],
                    "set-cookie": ["id=1; Path=/; HttpOnly", "theme=dark"], "x-odd": "café" })
        );
        assert_eq!(
            Value::Object(stored.cookies.unwrap()),
            json!({ "id": { "value": "1", "attributes": { "path": "/", "httponly": true } },
                    "theme": { "value": "dark", "attributes": {} } })
        );
        assert_eq!(
            Value::Object(stored.additional_details),
            json!({ "status_code": 200, "final_url": "http://a.example/end",
                    "content_type": "text/html; charset=iso-8859-1", "content_length": 11,
                    "redirects": [{ "url": "http://a.example/", "status_code": 302 }],
                    "charset": "windows-1252", "truncated": false })
        );
    }

    #[test]
    fn a_long_source_is_cut_at_a_character_boundary_and_marked() {
        let stored =
            content(&response(&[("content-type", b"text/plain; charset=utf-8")], "aéé".as_bytes()), 4, 1000);
        assert_eq!(stored.page_source.as_deref(), Some("aé"));
        assert_eq!(stored.additional_details["truncated"], json!(true));
        assert_eq!(stored.additional_details["content_length"], json!(5));
    }

    #[test]
    fn binary_content_is_stored_as_type_and_length_only() {
        for (lines, body) in [
            (&[("content-type", &b"image/png"[..])][..], &b"\x89PNG\r\n\x1a\n"[..]),
            (&[("content-type", b"application/octet-stream")], b"plain text, but who knows"),
            (&[], b"\x7fELF\x02\x01\x01\0\0"),
        ] {
            let stored = content(&response(lines, body), 1000, 1000);
            assert_eq!(stored.page_source, None);
            assert_eq!(stored.additional_details["content_length"], json!(body.len()));
            assert!(!stored.additional_details.contains_key("charset"));
        }
        for (kind, is) in [
            ("application/json", true),
            ("application/atom+xml", true),
            ("image/svg+xml", true),
            ("video/mp4", false),
        ] {
            assert_eq!(is_text(Some(kind), b""), is, "{kind}");
        }
        assert!(is_text(None, b"just text"));
        assert!(is_text(None, b"\xff\xfea\0b\0"), "UTF-16 with its mark");
    }
}
