//! Message of `crawler_queue`: one crawled page. A public contract for other publishers and consumers.

use crate::body::{self, Field, quote};
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, UrlOptions, index_text, url::normalise};
use crawlway_flow::Invalid;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Number, Value};

/// JSON Schema of the message.
pub const SCHEMA: &str = include_str!("../../schemas/crawler_queue.schema.json");

/// Crawled page, with the fields of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageMessage {
    /// URL of the page in normal form.
    pub url: String,
    /// Main text: no tags, lower case, white space collapsed.
    pub text: String,
    /// Metadata of the page.
    #[serde(deserialize_with = "body::object")]
    pub metadata: Metadata,
    /// Main text with its case, and a line per paragraph. Omitted if it is unknown, equal to `text`, or makes the message
    /// too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_text: Option<String>,
    /// Whether the text is cut, since the whole would be too large. Omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl PageMessage {
    /// JSON of the message of a page with this readable text, of at most `max_bytes`: without the original text if that is
    /// too large, and with a cut text if that is still too large. `truncated` if the given text is cut already.
    pub(super) fn body(
        url: String,
        mut original_text: String,
        metadata: Metadata,
        truncated: bool,
        max_bytes: usize,
    ) -> Vec<u8> {
        let mut truncated = cut(&mut original_text, max_bytes) || truncated;
        let text = index_text(&original_text);
        // Skips a first attempt that cannot fit.
        let fits = original_text.len() + text.len() <= max_bytes;
        let original_text = (fits && original_text != text).then_some(original_text);
        let mut message = Self { url, text, metadata, original_text, truncated };
        loop {
            // Cannot fail: all fields are serialisable.
            let body = serde_json::to_vec(&message).unwrap_or_default();
            if body.len() <= max_bytes {
                return body;
            }
            if message.original_text.take().is_some() {
                continue;
            }
            if message.text.is_empty() {
                // The other fields are too large; the reader refuses it.
                return body;
            }
            // The excess and a margin, since JSON escapes make some texts longer.
            let keep = message.text.len().saturating_sub(body.len() - max_bytes).saturating_sub(1024);
            truncated |= cut(&mut message.text, keep);
            message.truncated = truncated;
        }
    }
}

/// Cuts a text to a maximum size in bytes, and returns whether it was longer.
pub(crate) fn cut(text: &mut String, max_bytes: usize) -> bool {
    if text.len() <= max_bytes {
        return false;
    }
    let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text.shrink_to_fit();
    true
}

/// Metadata of a crawled page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Title, or empty.
    pub title: String,
    /// Description, omitted if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Crawl time: ISO 8601 in UTC.
    pub timestamp: String,
    /// HTTP status.
    #[serde(deserialize_with = "whole_number")]
    pub status_code: i64,
}

/// Validated page message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPage {
    /// URL, normalised.
    pub url: NormalUrl,
    /// Text, in lower case if the publisher follows the contract.
    pub text: String,
    /// Readable text, if it is known.
    pub original_text: Option<String>,
    /// Whether the text is cut.
    pub truncated: bool,
    /// Title.
    pub title: String,
    /// Description.
    pub description: Option<String>,
    /// Crawl time.
    pub crawled_at: Timestamp,
    /// HTTP status.
    pub status_code: u16,
}

/// Decodes and validates a message. The error names the field, its value and what was expected.
pub fn read(body: &[u8], max_bytes: usize) -> Result<CheckedPage, Invalid> {
    let PageMessage { url, text, metadata, original_text, truncated } = body::read(body, max_bytes, &FIELDS)?;
    let normal = normalise(&url, &UrlOptions::default())
        .map_err(|error| Invalid(format!("`url` is not one that a page can have: {error}")))?;
    let crawled_at = Timestamp::from_iso(&metadata.timestamp).ok_or_else(|| {
        Invalid(format!(
            "`metadata.timestamp` is {}; expected ISO 8601 such as \"2026-11-15T09:30:00Z\"",
            quote(&Value::String(metadata.timestamp.clone()))
        ))
    })?;
    let status_code =
        u16::try_from(metadata.status_code).ok().filter(|code| (100..=999).contains(code)).ok_or_else(
            || Invalid(format!("`metadata.status_code` is {}; expected 100 to 999", metadata.status_code)),
        )?;
    Ok(CheckedPage {
        url: normal,
        text,
        original_text,
        truncated,
        title: metadata.title,
        description: metadata.description,
        crawled_at,
        status_code,
    })
}

/// Whole number, which JSON Schema also allows as `200.0`.
fn whole_number<'de, D: Deserializer<'de>>(number: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(number)?;
    as_whole(&number).ok_or_else(|| de::Error::custom(format!("{number} is not a whole number")))
}

fn as_whole(number: &Number) -> Option<i64> {
    // Largest exact float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
    number.as_i64().or_else(|| float().map(|float| float as i64))
}

/// Fields of the contract.
const FIELDS: [Field; 9] = [
    ("/url", true, Value::is_string, "a text"),
    ("/text", true, Value::is_string, "a text"),
    ("/metadata", true, Value::is_object, "an object"),
    ("/metadata/title", true, Value::is_string, "a text"),
    ("/metadata/description", false, Value::is_string, "a text, or to be left out"),
    ("/metadata/timestamp", true, Value::is_string, "a text"),
    ("/original_text", false, Value::is_string, "a text, or to be left out"),
    ("/truncated", false, Value::is_boolean, "true or false, or to be left out"),
    ("/metadata/status_code", true, |value| value.as_number().and_then(as_whole).is_some(), "a whole number"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const MAX_BYTES: usize = 1 << 20;

    fn valid() -> Value {
        json!({
            "url": "https://example.com/page1",
            "text": "this is the main text of the page...",
            "metadata": {
                "title": "Example Page", "description": "Example description",
                "timestamp": "2025-11-01T12:00:00Z", "status_code": 200
            },
            "original_text": "This is the main text\nof the page...",
            "truncated": false
        })
    }

    fn reason(body: &[u8]) -> String {
        read(body, MAX_BYTES).unwrap_err().to_string()
    }

    #[test]
    fn the_example_of_the_contract_is_valid() {
        let page = read(valid().to_string().as_bytes(), MAX_BYTES).unwrap();
        assert_eq!(page.url.as_str(), "https://example.com/page1");
        assert_eq!(page.crawled_at.to_iso(), "2025-11-01T12:00:00.000Z");
        assert_eq!((page.title.as_str(), page.status_code), ("Example Page", 200));
    }

    #[test]
    fn unknown_fields_are_ignored_and_a_missing_or_null_description_is_none() {
        let mut message = valid();
        message["extra"] = json!([1, 2]);
        message["metadata"]["description"] = Value::Null;
        assert_eq!(read(message.to_string().as_bytes(), MAX_BYTES).unwrap().description, None);
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_point() {
        let mut message = valid();
        message["metadata"]["status_code"] = json!(203.0);
        assert_eq!(read(message.to_string().as_bytes(), MAX_BYTES).unwrap().status_code, 203);
        for other in ["2e400", "1e300", "-0.5", "18446744073709551616"] {
            let body = valid().to_string().replace("200", other);
            reason(body.as_bytes());
        }
    }

    #[test]
    fn only_the_fields_of_the_contract_are_written() {
        let message = PageMessage {
            url: "https://example.com/".into(),
            text: "text".into(),
            metadata: Metadata {
                title: String::new(),
                description: None,
                timestamp: "2025-11-01T12:00:00.000Z".into(),
                status_code: 200,
            },
            original_text: None,
            truncated: false,
        };
        assert_eq!(
            serde_json::to_string(&message).unwrap(),
            r#"{"url":"https://example.com/","text":"text","metadata":{"title":"","timestamp":"2025-11-01T12:00:00.000Z","status_code":200}}"#
        );
    }

    #[test]
    fn original_text_is_dropped_first_and_text_is_cut_last() {
        let metadata = || Metadata {
            title: String::new(),
            description: None,
            timestamp: "2025-11-01T12:00:00.000Z".into(),
            status_code: 200,
        };
        let message = |text: &str, max: usize| {
            let body = PageMessage::body("https://a.test/".into(), text.into(), metadata(), false, max);
            let page: PageMessage = serde_json::from_slice(&body).unwrap();
            (body.len(), page)
        };
        let (len, page) = message("The Night\nTrain", MAX_BYTES);
        assert_eq!(
            (page.text.as_str(), page.original_text.as_deref()),
            ("the night train", Some("The Night\nTrain"))
        );
        let (_, page) = message("The Night\nTrain", len - 1);
        assert_eq!((page.text.as_str(), page.original_text), ("the night train", None), "too large with it");
        assert_eq!(message("the same", MAX_BYTES).1.original_text, None);
        for (text, max) in
            [("é".repeat(9000), 9000), ("\u{1}\"x".repeat(9000), 5000), ("a".repeat(9000), 8000)]
        {
            let (len, page) = message(&text, max);
            assert!(len <= max && page.truncated, "{len} of {max}");
            assert!(
                index_text(&text).starts_with(&page.text) && page.text.len() > max / 8,
                "{}",
                page.text.len()
            );
        }
        assert!(!message(&"a".repeat(9000), 10_000).1.truncated);
    }

    #[test]
    fn an_invalid_message_has_a_reason() {
        let with = |pointer: &str, value: Value| {
            let mut message = valid();
            *message.pointer_mut(pointer).unwrap() = value;
            message.to_string().into_bytes()
        };
        let without = |parent: &str, name: &str| {
            let mut message = valid();
            message.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
            message.to_string().into_bytes()
        };
        for (body, expected) in [
            (b"".to_vec(), "not JSON"),
            (b"not json".to_vec(), "not JSON"),
            (b"[]".to_vec(), "is a list; expected an object"),
            (b"{\"url\":\"\xff\"}".to_vec(), "not UTF-8 (from byte 8 on)"),
            (without("", "text"), "`text` is missing; expected a text"),
            (without("/metadata", "timestamp"), "`metadata.timestamp` is missing"),
            (with("/metadata", json!([])), "`metadata` is a list; expected an object"),
            (
                with("/metadata", json!(["Title", null, "2025-11-01T12:00:00Z", 200])),
                "`metadata` is a list; expected an object",
            ),
            (br#"{"more": "\ud800"}"#.to_vec(), "not JSON: unexpected end of hex escape"),
            (
                with("/metadata/status_code", json!("200")),
                "`metadata.status_code` is \"200\"; expected a whole number",
            ),
            (with("/metadata/status_code", json!(2.5)), "`metadata.status_code` is 2.5"),
            (with("/metadata/status_code", json!(0)), "`metadata.status_code` is 0; expected 100 to 999"),
            (with("/metadata/title", Value::Null), "`metadata.title` is null; expected a text"),
            (with("/metadata/description", json!(1)), "`metadata.description` is 1"),
            (with("/metadata/timestamp", json!("yesterday")), "expected ISO 8601"),
            (with("/original_text", json!(["a"])), "`original_text` is a list; expected a text"),
            (with("/url", json!("")), "`url` is not one"),
            (with("/url", json!("ftp://example.com/")), "`url` is not one"),
            (vec![b' '; MAX_BYTES + 1], "the limit is 1048576"),
        ] {
            let reason = reason(&body);
            assert!(reason.contains(expected), "expected `{expected}` in: {reason}");
        }
    }

    fn some_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (100..999i64).prop_map(Value::from),
            Just(json!(200.5)),
            Just(json!("https://example.com/a")),
            Just(json!("2025-11-01T12:00:00Z")),
            ".{0,8}".prop_map(Value::from),
            Just(json!({})),
            Just(json!([])),
        ]
    }

    proptest! {
        /// For any value of one field, schema and reader agree whether the message is valid, except that the reader also
        /// checks the values of URL and time.
        #[test]
        fn the_schema_and_the_reader_agree(
            place in prop::sample::select(vec!["/url", "/text", "/metadata", "/metadata/title",
                "/metadata/description", "/metadata/timestamp", "/metadata/status_code", "/original_text",
                "/truncated"]),
            value in prop::option::of(some_value()),
        ) {
            let mut message = valid();
            match &value {
                Some(value) => *message.pointer_mut(place).unwrap() = value.clone(),
                None => {
                    let (parent, name) = place.rsplit_once('/').unwrap();
                    message.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
                }
            }
            let schema: Value = serde_json::from_str(SCHEMA).unwrap();
            let valid = jsonschema::validator_for(&schema).unwrap().is_valid(&message);
            let read = read(message.to_string().as_bytes(), MAX_BYTES);
            let may_be_null = ["/metadata/description", "/original_text"].contains(&place);
            if read.is_ok() && !(may_be_null && value == Some(Value::Null)) {
                prop_assert!(valid, "only the reader accepts: {message}");
            }
            let is_checked_further = ["/url", "/metadata/timestamp"].contains(&place);
            if valid && !is_checked_further {
                prop_assert!(read.is_ok(), "only the schema accepts: {message}: {read:?}");
            }
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&body, MAX_BYTES);
        }
    }
}
