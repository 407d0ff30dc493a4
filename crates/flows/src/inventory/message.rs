//! Message of `url_inventory`: one requested URL. A public contract for other publishers and consumers.

use crate::body::{self, Field, quote};
use crawlway_broker::limits;
use crawlway_clock::Timestamp;
use crawlway_content::{NormalUrl, UrlOptions, url::normalise};
use crawlway_flow::Invalid;
use crawlway_store::inventory::RecordRequest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// JSON Schema of the message.
pub const SCHEMA: &str = include_str!("../../schemas/url_inventory.schema.json");

/// Maximum size of a message.
const MAX_BYTES: usize = 64 << 10;

/// Requested URL, with the fields of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlMessage {
    /// URL.
    pub url: String,
    /// Time of the request: ISO 8601 in UTC.
    pub requested_at: String,
    /// Id of the request in queues, records and trails.
    pub message_id: String,
}

impl UrlMessage {
    /// JSON of the message.
    pub(super) fn to_body(&self) -> Vec<u8> {
        // Cannot fail: all fields are serialisable.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Validated message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlRequest {
    /// URL, normalised.
    pub(super) url: NormalUrl,
    pub(super) requested_at: Timestamp,
    pub(super) message_id: String,
}

impl UrlRequest {
    /// Request for the record store.
    pub(super) fn record_request(&self) -> RecordRequest {
        RecordRequest {
            url: self.url.as_str().to_owned(),
            message_id: self.message_id.clone(),
            requested_at: self.requested_at,
        }
    }
}

/// Fields of the contract.
const FIELDS: [Field; 3] = [
    ("/url", true, Value::is_string, "a text"),
    ("/requested_at", true, Value::is_string, "a text"),
    ("/message_id", true, Value::is_string, "a text"),
];

/// Decodes and validates a message.
pub(super) fn decode(body: &[u8]) -> Result<UrlRequest, Invalid> {
    let UrlMessage { url, requested_at, message_id } = body::read(body, MAX_BYTES, &FIELDS)?;
    let url = normalise(&url, &UrlOptions::default())
        .map_err(|error| Invalid(format!("`url` is not one that can be requested: {error}")))?;
    let requested_at = Timestamp::from_iso(&requested_at).ok_or_else(|| {
        Invalid(format!(
            "`requested_at` is {}; expected ISO 8601 such as \"2026-11-15T09:30:00Z\"",
            quote(&Value::String(requested_at))
        ))
    })?;
    let is_valid_id = !message_id.is_empty()
        && message_id.len() <= limits::MAX_ID_BYTES
        && !message_id.chars().any(char::is_control);
    if !is_valid_id {
        return Err(Invalid(format!(
            "`message_id` is {}; expected 1 to {} bytes without control characters",
            quote(&Value::String(message_id)),
            limits::MAX_ID_BYTES
        )));
    }
    Ok(UrlRequest { url, requested_at, message_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn valid() -> Value {
        json!({ "url": "HTTP://Example.com:80/a#top", "requested_at": "2026-11-15T09:30:00Z", "message_id": "m-1" })
    }

    #[test]
    fn a_message_is_decoded_and_its_url_normalised() {
        let request = decode(valid().to_string().as_bytes()).unwrap();
        assert_eq!((request.url.as_str(), request.message_id.as_str()), ("http://example.com/a", "m-1"));
        assert_eq!(request.requested_at.to_iso(), "2026-11-15T09:30:00.000Z");
    }

    #[test]
    fn only_the_fields_of_the_contract_are_written() {
        let message = UrlMessage {
            url: "u".into(),
            requested_at: "2026-11-15T09:30:00.000Z".into(),
            message_id: "m".into(),
        };
        let body = String::from_utf8(message.to_body()).unwrap();
        assert_eq!(body, r#"{"url":"u","requested_at":"2026-11-15T09:30:00.000Z","message_id":"m"}"#);
    }

    #[test]
    fn an_invalid_message_has_a_reason() {
        let with = |name: &str, value: Value| {
            let mut message = valid();
            message[name] = value;
            message.to_string().into_bytes()
        };
        let without = |name: &str| {
            let mut message = valid();
            message.as_object_mut().unwrap().remove(name);
            message.to_string().into_bytes()
        };
        for (body, expected) in [
            (b"".to_vec(), "not JSON"),
            (b"[]".to_vec(), "is a list; expected an object"),
            (without("url"), "`url` is missing; expected a text"),
            (without("message_id"), "`message_id` is missing"),
            (with("url", json!(7)), "`url` is 7; expected a text"),
            (with("url", json!("ftp://a.example/")), "`url` is not one that can be requested"),
            (with("url", json!("https://user:pw@a.example/")), "credentials"),
            (with("requested_at", json!("now")), "`requested_at` is \"now\"; expected ISO 8601"),
            (with("message_id", json!("")), "`message_id` is \"\"; expected 1 to 128 bytes"),
            (with("message_id", json!("a\nb")), "without control characters"),
            (vec![b' '; MAX_BYTES + 1], "the limit is 65536"),
        ] {
            let reason = decode(&body).unwrap_err().to_string();
            assert!(reason.contains(expected), "expected `{expected}` in: {reason}");
        }
    }

    proptest! {
        /// For any value of one field, the decoder accepts only what the schema accepts. It checks the values further.
        #[test]
        fn the_schema_and_the_decoder_agree(
            name in prop::sample::select(vec!["url", "requested_at", "message_id"]),
            value in prop::option::of(prop_oneof![
                Just(Value::Null), any::<i32>().prop_map(Value::from), Just(json!([])), Just(json!("https://a.example/")),
                Just(json!("2026-11-15T09:30:00Z")), Just(json!("")), ".{0,8}".prop_map(Value::from),
            ]),
        ) {
            let mut message = valid();
            match value {
                Some(value) => message[name] = value,
                None => drop(message.as_object_mut().unwrap().remove(name)),
            }
            let schema: Value = serde_json::from_str(SCHEMA).unwrap();
            let valid = jsonschema::validator_for(&schema).unwrap().is_valid(&message);
            let decoded = decode(message.to_string().as_bytes());
            prop_assert!(valid || decoded.is_err(), "only the decoder accepts: {message}");
        }

        #[test]
        fn no_bytes_make_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&body);
        }
    }
}
