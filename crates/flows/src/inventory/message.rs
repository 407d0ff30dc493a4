//! The message on `url_inventory`: one URL that somebody asks for. Anyone may publish it and anyone may consume it.

use crate::body::{self, Field, shown};
use crawlway_broker::limits;
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_flow::Invalid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The JSON Schema of the message, as it is shipped.
pub const SCHEMA: &str = include_str!("../../schemas/url_inventory.schema.json");

/// The largest message that is taken: a URL, a time and an id are all that it has.
const LARGEST: usize = 64 << 10;

/// A URL that is asked for, field by field as the contract has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlMessage {
    /// The URL.
    pub url: String,
    /// When somebody asked for it: ISO 8601 in UTC.
    pub requested_at: String,
    /// The id of the request, which follows it everywhere.
    pub message_id: String,
}

/// A message whose values have been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// The URL, in normal form whatever the publisher sent.
    pub(super) url: NormalUrl,
    pub(super) requested_at: Timestamp,
    pub(super) message_id: String,
}

/// What the contract says of each field.
const FIELDS: [Field; 3] = [
    ("/url", true, Value::is_string, "a text"),
    ("/requested_at", true, Value::is_string, "a text"),
    ("/message_id", true, Value::is_string, "a text"),
];

/// Reads a message, or says what is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Asked, Invalid> {
    let UrlMessage { url, requested_at, message_id } = body::read(body, LARGEST, &FIELDS)?;
    let url = normalise(&url, &UrlOptions::default())
        .map_err(|error| Invalid(format!("`url` is not one that can be asked for: {error}")))?;
    let requested_at = Timestamp::from_iso(&requested_at).ok_or_else(|| {
        Invalid(format!(
            "`requested_at` is {}; expected ISO 8601 such as \"2026-11-15T09:30:00Z\"",
            shown(&Value::String(requested_at))
        ))
    })?;
    let fits = !message_id.is_empty()
        && message_id.len() <= limits::MAX_ID
        && !message_id.chars().any(char::is_control);
    if !fits {
        return Err(Invalid(format!(
            "`message_id` is {}; expected 1 to {} bytes without control characters",
            shown(&Value::String(message_id)),
            limits::MAX_ID
        )));
    }
    Ok(Asked { url, requested_at, message_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn good() -> Value {
        json!({ "url": "HTTP://Example.com:80/a#top", "requested_at": "2026-11-15T09:30:00Z", "message_id": "m-1" })
    }

    #[test]
    fn a_message_is_read_and_its_url_is_brought_into_normal_form() {
        let asked = read(good().to_string().as_bytes()).unwrap();
        assert_eq!((asked.url.as_str(), asked.message_id.as_str()), ("http://example.com/a", "m-1"));
        assert_eq!(asked.requested_at.to_iso(), "2026-11-15T09:30:00.000Z");
    }

    #[test]
    fn what_is_written_is_what_the_contract_says_and_no_more() {
        let message = UrlMessage {
            url: "u".into(),
            requested_at: "2026-11-15T09:30:00.000Z".into(),
            message_id: "m".into(),
        };
        assert_eq!(
            serde_json::to_string(&message).unwrap(),
            r#"{"url":"u","requested_at":"2026-11-15T09:30:00.000Z","message_id":"m"}"#
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |name: &str, value: Value| {
            let mut message = good();
            message[name] = value;
            message.to_string().into_bytes()
        };
        let without = |name: &str| {
            let mut message = good();
            message.as_object_mut().unwrap().remove(name);
            message.to_string().into_bytes()
        };
        for (body, expected) in [
            (b"".to_vec(), "not JSON"),
            (b"[]".to_vec(), "is a list; expected an object"),
            (without("url"), "`url` is missing; expected a text"),
            (without("message_id"), "`message_id` is missing"),
            (with("url", json!(7)), "`url` is 7; expected a text"),
            (with("url", json!("ftp://a.example/")), "`url` is not one that can be asked for"),
            (with("url", json!("https://user:pw@a.example/")), "credentials"),
            (with("requested_at", json!("now")), "`requested_at` is \"now\"; expected ISO 8601"),
            (with("message_id", json!("")), "`message_id` is \"\"; expected 1 to 128 bytes"),
            (with("message_id", json!("a\nb")), "without control characters"),
            (vec![b' '; LARGEST + 1], "the limit is 65536"),
        ] {
            let told = read(&body).unwrap_err().to_string();
            assert!(told.contains(expected), "expected `{expected}` in: {told}");
        }
    }

    proptest! {
        /// Whatever one field is replaced by, the schema and the reader agree on whether the shape is right. The reader
        /// looks closer at the values.
        #[test]
        fn the_schema_and_the_reader_agree(
            name in prop::sample::select(vec!["url", "requested_at", "message_id"]),
            value in prop::option::of(prop_oneof![
                Just(Value::Null), any::<i32>().prop_map(Value::from), Just(json!([])), Just(json!("https://a.example/")),
                Just(json!("2026-11-15T09:30:00Z")), Just(json!("")), ".{0,8}".prop_map(Value::from),
            ]),
        ) {
            let mut message = good();
            match value {
                Some(value) => message[name] = value,
                None => drop(message.as_object_mut().unwrap().remove(name)),
            }
            let schema: Value = serde_json::from_str(SCHEMA).unwrap();
            let valid = jsonschema::validator_for(&schema).unwrap().is_valid(&message);
            let read = read(message.to_string().as_bytes());
            prop_assert!(valid || read.is_err(), "the reader takes what the schema refuses: {message}");
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&body);
        }
    }
}
