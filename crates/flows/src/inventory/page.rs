//! What is kept of an answer: headers, cookies, the page's source as text, and what it was.

use crawlway_content::charset::decode;
use crawlway_fetch::Fetched as Answer;
use crawlway_store::inventory::{Cookie, Fetched, cookies, headers};
use http::header;
use serde_json::{Map, Value, json};

/// How much of a body without a type is looked at.
const LOOKED_AT: usize = 1024;

/// How much memory an answer takes while its source is read, beside its size: the body, and its text in another encoding.
pub(super) const READ: usize = 3;

/// What is kept of an answer, with at most so many bytes of its source, of whose body so many are read.
pub(super) fn kept(answer: &Answer, most_source: usize, read_most: usize) -> Fetched {
    let lines = answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let set = answer.headers.get_all(header::SET_COOKIE).iter().map(|line| Cookie::read(line.as_bytes()));
    let content_type = answer.headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let content_type = content_type.map(|value| String::from_utf8_lossy(value).into_owned());
    let mut details = Map::new();
    let mut add = |name: &str, value: Value| drop(details.insert(name.to_owned(), value));
    add("status_code", json!(answer.status.as_u16()));
    add("final_url", json!(answer.url.as_str()));
    add("content_type", json!(content_type));
    add("content_length", json!(answer.body.len()));
    let hop =
        |hop: &crawlway_fetch::Hop| json!({ "url": hop.url.as_str(), "status_code": hop.status.as_u16() });
    add("redirects", answer.hops.iter().map(hop).collect());
    let mut page_source = None;
    if is_text(content_type.as_deref(), &answer.body) {
        let read = &answer.body[..answer.body.len().min(read_most)];
        let decoded = decode(read, content_type.as_deref());
        let mut text = decoded.text.into_owned();
        let truncated = text.len() > most_source || read.len() < answer.body.len();
        text.truncate(text.floor_char_boundary(most_source));
        add("charset", json!(decoded.encoding));
        add("truncated", json!(truncated));
        page_source = Some(text);
    }
    Fetched {
        headers: Some(headers(lines)),
        cookies: Some(cookies(set)),
        page_source,
        additional_details: details,
    }
}

/// Whether a body is text, by what it says it is, or else by how it begins.
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
        None => looks_like_text(&body[..body.len().min(LOOKED_AT)]),
    }
}

/// What has no type is text if nothing in its beginning is what only other data has, as browsers decide it.
fn looks_like_text(start: &[u8]) -> bool {
    let marked =
        [&[0xef, 0xbb, 0xbf][..], &[0xfe, 0xff], &[0xff, 0xfe]].iter().any(|mark| start.starts_with(mark));
    let binary = |octet: &u8| matches!(octet, 0..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    marked || !start.iter().any(binary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlway_fetch::Timing;
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};

    fn answer(lines: &[(&str, &[u8])], body: &[u8]) -> Answer {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap());
        }
        Answer {
            url: "http://a.example/end".parse().unwrap(),
            status: StatusCode::OK,
            version: Version::HTTP_11,
            headers,
            body: body.to_vec().into(),
            sent_bytes: body.len(),
            hops: vec![crawlway_fetch::Hop {
                url: "http://a.example/".parse().unwrap(),
                status: StatusCode::FOUND,
            }],
            address: "127.0.0.1:80".parse().unwrap(),
            timing: Timing::default(),
            share: crawlway_fetch::Memory::default().share(),
        }
    }

    #[test]
    fn a_page_is_kept_with_its_headers_cookies_and_decoded_source() {
        let page = answer(
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
        let kept = kept(&page, 1000, 1000);
        assert_eq!(kept.page_source.as_deref(), Some("<p>café</p>"));
        assert_eq!(
            Value::Object(kept.headers.unwrap()),
            json!({ "content-type": "text/html; charset=iso-8859-1", "via": ["a", "b"],
                    "set-cookie": ["id=1; Path=/; HttpOnly", "theme=dark"], "x-odd": "café" })
        );
        assert_eq!(
            Value::Object(kept.cookies.unwrap()),
            json!({ "id": { "value": "1", "attributes": { "path": "/", "httponly": true } },
                    "theme": { "value": "dark", "attributes": {} } })
        );
        assert_eq!(
            Value::Object(kept.additional_details),
            json!({ "status_code": 200, "final_url": "http://a.example/end",
                    "content_type": "text/html; charset=iso-8859-1", "content_length": 11,
                    "redirects": [{ "url": "http://a.example/", "status_code": 302 }],
                    "charset": "windows-1252", "truncated": false })
        );
    }

    #[test]
    fn a_source_that_is_too_long_is_cut_between_characters_and_says_so() {
        let kept =
            kept(&answer(&[("content-type", b"text/plain; charset=utf-8")], "aéé".as_bytes()), 4, 1000);
        assert_eq!(kept.page_source.as_deref(), Some("aé"));
        assert_eq!(kept.additional_details["truncated"], json!(true));
        assert_eq!(kept.additional_details["content_length"], json!(5));
    }

    #[test]
    fn what_is_not_text_has_its_type_and_length_only() {
        for (lines, body) in [
            (&[("content-type", &b"image/png"[..])][..], &b"\x89PNG\r\n\x1a\n"[..]),
            (&[("content-type", b"application/octet-stream")], b"plain text, but who knows"),
            (&[], b"\x7fELF\x02\x01\x01\0\0"),
        ] {
            let kept = kept(&answer(lines, body), 1000, 1000);
            assert_eq!(kept.page_source, None);
            assert_eq!(kept.additional_details["content_length"], json!(body.len()));
            assert!(!kept.additional_details.contains_key("charset"));
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
