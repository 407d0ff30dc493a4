//! Values that every store can hold: no U+0000, no integers beyond 64 bits, bounded size and nesting.

use super::{Fetched, OURS, Request};
use crate::{StoreError, Timestamp};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Maximum size of a completed record in bytes, by [`Fetched::weight`]. A MongoDB document has at most 16 MiB, which
/// includes the URL, the last error and [`Work`](super::Work).
pub const LARGEST: usize = 15 << 20;

/// Maximum nesting of objects and arrays; a plain value has depth 1.
pub const DEEPEST: usize = 32;

/// Maximum size of an error text in bytes; longer texts are truncated.
pub const LONGEST_ERROR: usize = 16 << 10;

/// Maximum size of a URL and the id of its message together, in bytes.
pub const LONGEST_REQUEST: usize = 128 << 10;

impl Request {
    /// The request as it is stored, or why it cannot be.
    pub fn storable(&self, now: Timestamp) -> Result<Request, StoreError> {
        let length = self.url.len() + self.message_id.len();
        if length > LONGEST_REQUEST {
            let problem = format!(
                "the URL and the id of its message have {length} bytes together; the maximum is {LONGEST_REQUEST}"
            );
            return Err(StoreError::Invalid { problem });
        }
        if self.message_id.is_empty() {
            let problem = format!("the message about `{}` has an empty id; use a unique one", self.url);
            return Err(StoreError::Invalid { problem });
        }
        Ok(Request {
            url: text(&self.url).into_owned(),
            message_id: text(&self.message_id).into_owned(),
            requested_at: self.requested_at.min(now),
        })
    }
}

impl Fetched {
    /// Size in bytes: all texts and names, plus 16 for every value, which is an upper bound of the BSON size.
    pub fn weight(&self) -> usize {
        let objects = [self.headers.as_ref(), self.cookies.as_ref(), Some(&self.additional_details)];
        let objects = objects.into_iter().flatten().map(weight_of_object).sum::<usize>();
        objects + self.page_source.as_ref().map_or(0, String::len) + 64
    }

    /// The content as it is stored, or why it cannot be. Copied only if it has to be changed.
    pub fn storable(&self) -> Result<Cow<'_, Fetched>, StoreError> {
        let weight = self.weight();
        if weight > LARGEST {
            let problem = format!("the record has {weight} bytes; the maximum is {LARGEST}");
            return Err(StoreError::Invalid { problem });
        }
        let objects = [self.headers.as_ref(), self.cookies.as_ref(), Some(&self.additional_details)];
        let mut objects = objects.into_iter().flatten();
        if objects.clone().any(|object| object.values().any(|value| !is_within(value, DEEPEST - 1))) {
            let problem = format!("the record is nested deeper than {DEEPEST} levels");
            return Err(StoreError::Invalid { problem });
        }
        let source = self.page_source.as_deref().is_none_or(is_plain);
        if source && objects.all(is_plain_object) && !self.additional_details.contains_key(OURS) {
            return Ok(Cow::Borrowed(self));
        }
        let mut additional_details = object(&self.additional_details);
        additional_details.remove(OURS);
        Ok(Cow::Owned(Fetched {
            headers: self.headers.as_ref().map(object),
            cookies: self.cookies.as_ref().map(object),
            page_source: self.page_source.as_deref().map(|source| text(source).into_owned()),
            additional_details,
        }))
    }
}

/// An error text as it is stored: truncated, without U+0000.
pub fn error_text(error: &str) -> Cow<'_, str> {
    text(&error[..error.floor_char_boundary(LONGEST_ERROR)])
}

/// A text as it is stored: without U+0000.
pub fn text(text: &str) -> Cow<'_, str> {
    if is_plain(text) { Cow::Borrowed(text) } else { Cow::Owned(text.replace('\0', "\u{fffd}")) }
}

fn object(object: &Map<String, Value>) -> Map<String, Value> {
    object.iter().map(|(name, value)| (text(name).into_owned(), self::value(value))).collect()
}

fn value(value: &Value) -> Value {
    match value {
        Value::String(string) => Value::String(text(string).into_owned()),
        Value::Array(values) => values.iter().map(self::value).collect(),
        Value::Object(fields) => Value::Object(object(fields)),
        Value::Number(number) if is_too_large(number) => number.as_f64().into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn is_plain(text: &str) -> bool {
    !text.contains('\0')
}

fn is_plain_object(object: &Map<String, Value>) -> bool {
    object.iter().all(|(name, value)| is_plain(name) && is_plain_value(value))
}

fn is_plain_value(value: &Value) -> bool {
    match value {
        Value::String(string) => is_plain(string),
        Value::Array(values) => values.iter().all(is_plain_value),
        Value::Object(fields) => is_plain_object(fields),
        Value::Number(number) => !is_too_large(number),
        Value::Null | Value::Bool(_) => true,
    }
}

fn is_too_large(number: &serde_json::Number) -> bool {
    number.is_u64() && !number.is_i64()
}

fn is_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(values) => values.iter().all(|value| is_within(value, below)),
        Value::Object(fields) => fields.values().all(|value| is_within(value, below)),
        _ => true,
    }
}

fn weight_of_object(object: &Map<String, Value>) -> usize {
    object.iter().map(|(name, value)| name.len() + weight(value)).sum()
}

fn weight(value: &Value) -> usize {
    const VALUE_OVERHEAD: usize = 16;
    VALUE_OVERHEAD
        + match value {
            Value::String(string) => string.len(),
            Value::Array(values) => values.iter().map(weight).sum(),
            Value::Object(fields) => weight_of_object(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn details(value: Value) -> Fetched {
        let additional_details = json!({ "it": value }).as_object().cloned().unwrap_or_default();
        Fetched { additional_details, ..Fetched::default() }
    }

    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!(1), |value, _| json!([value]))
    }

    #[test]
    fn storable_content_is_not_copied() {
        let plain = details(json!([1, -1, i64::MAX, 0.5, "text", { "a": null }]));
        assert!(matches!(plain.storable(), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn nul_and_large_integers_are_replaced_at_every_level() {
        let raw = details(json!([{ "a\0": ["\0", u64::MAX, 7] }]));
        let kept = raw.storable().unwrap().into_owned();
        assert_eq!(kept, details(json!([{ "a\u{fffd}": ["\u{fffd}", 18_446_744_073_709_551_615.0, 7] }])));
        let source = Fetched { page_source: Some("a\0b".to_owned()), ..Fetched::default() };
        assert_eq!(source.storable().unwrap().page_source.as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn our_own_field_is_dropped_from_the_details() {
        let mut fetched = details(json!(1));
        fetched.additional_details.insert(OURS.to_owned(), json!({ "attempt": 99 }));
        assert_eq!(fetched.storable().unwrap().into_owned(), details(json!(1)));
    }

    #[test]
    fn content_that_is_too_large_or_too_deep_is_refused() {
        assert!(details(nested(DEEPEST - 1)).storable().is_ok());
        let deep = details(nested(DEEPEST)).storable().unwrap_err().to_string();
        assert!(deep.contains("deeper than 32 levels"), "{deep}");
        let room = LARGEST - Fetched::default().weight();
        let source = |length: usize| Fetched { page_source: Some("x".repeat(length)), ..Fetched::default() };
        assert!(source(room).storable().is_ok());
        assert!(source(room + 1).storable().is_err());
    }

    #[test]
    fn an_error_is_truncated_at_a_character_boundary() {
        let long = "é".repeat(LONGEST_ERROR);
        assert_eq!(error_text(&long).len(), LONGEST_ERROR);
        let long = format!("x{long}");
        assert_eq!(error_text(&long).len(), LONGEST_ERROR - 1);
        assert_eq!(error_text("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn a_request_is_validated_and_its_time_is_at_most_now() {
        let now = Timestamp::from_millis(1000);
        let request = |url: &str, message_id: &str, millis| Request {
            url: url.to_owned(),
            message_id: message_id.to_owned(),
            requested_at: Timestamp::from_millis(millis),
        };
        assert_eq!(request("u", "m", 2000).storable(now), Ok(request("u", "m", 1000)));
        assert_eq!(request("u", "m", 999).storable(now), Ok(request("u", "m", 999)));
        assert!(request("u", "", 1).storable(now).is_err());
        assert!(request(&"u".repeat(LONGEST_REQUEST), "m", 1).storable(now).is_err());
    }
}
