//! Values that every store can hold: no U+0000, no integers beyond 64 bits, bounded size and nesting.

use super::{CRAWLWAY_FIELD, FetchedContent, RecordRequest};
use crate::{StoreError, Timestamp};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Maximum size of a completed record in bytes, by [`FetchedContent::size_bytes`]. A MongoDB document has at most 16 MiB, which
/// includes the URL, the last error and [`LatestAttempt`](super::LatestAttempt).
pub const MAX_RECORD_BYTES: usize = 15 << 20;

/// Maximum nesting of objects and arrays; a plain value has depth 1.
pub const MAX_NESTING: usize = 32;

/// Maximum size of an error text in bytes; longer texts are truncated.
pub const MAX_ERROR_BYTES: usize = 16 << 10;

/// Maximum size of a URL and the id of its message together, in bytes.
pub const MAX_REQUEST_BYTES: usize = 128 << 10;

impl RecordRequest {
    /// The request as it is stored, or why it cannot be.
    pub fn sanitized(&self, now: Timestamp) -> Result<RecordRequest, StoreError> {
        let length = self.url.len() + self.message_id.len();
        if length > MAX_REQUEST_BYTES {
            let problem = format!(
                "the URL and the id of its message have {length} bytes together; the maximum is {MAX_REQUEST_BYTES}"
            );
            return Err(StoreError::Invalid { problem });
        }
        if self.message_id.is_empty() {
            let problem = format!("the message about `{}` has an empty id; use a unique one", self.url);
            return Err(StoreError::Invalid { problem });
        }
        Ok(RecordRequest {
            url: sanitize_text(&self.url).into_owned(),
            message_id: sanitize_text(&self.message_id).into_owned(),
            requested_at: self.requested_at.min(now),
        })
    }
}

impl FetchedContent {
    /// Size in bytes: all texts and names, plus 16 for every value, which is an upper bound of the BSON size.
    pub fn size_bytes(&self) -> usize {
        let objects = [self.headers.as_ref(), self.cookies.as_ref(), Some(&self.additional_details)];
        let objects = objects.into_iter().flatten().map(object_size).sum::<usize>();
        objects + self.page_source.as_ref().map_or(0, String::len) + 64
    }

    /// The content as it is stored, or why it cannot be. Copied only if it has to be changed.
    pub fn sanitized(&self) -> Result<Cow<'_, FetchedContent>, StoreError> {
        let weight = self.size_bytes();
        if weight > MAX_RECORD_BYTES {
            let problem = format!("the record has {weight} bytes; the maximum is {MAX_RECORD_BYTES}");
            return Err(StoreError::Invalid { problem });
        }
        let objects = [self.headers.as_ref(), self.cookies.as_ref(), Some(&self.additional_details)];
        let mut objects = objects.into_iter().flatten();
        if objects.clone().any(|object| object.values().any(|value| !fits_depth(value, MAX_NESTING - 1))) {
            let problem = format!("the record is nested deeper than {MAX_NESTING} levels");
            return Err(StoreError::Invalid { problem });
        }
        let source = self.page_source.as_deref().is_none_or(is_clean);
        if source && objects.all(is_clean_object) && !self.additional_details.contains_key(CRAWLWAY_FIELD) {
            return Ok(Cow::Borrowed(self));
        }
        let mut additional_details = sanitize_object(&self.additional_details);
        additional_details.remove(CRAWLWAY_FIELD);
        Ok(Cow::Owned(FetchedContent {
            headers: self.headers.as_ref().map(sanitize_object),
            cookies: self.cookies.as_ref().map(sanitize_object),
            page_source: self.page_source.as_deref().map(|source| sanitize_text(source).into_owned()),
            additional_details,
        }))
    }
}

/// An error text as it is stored: truncated, without U+0000.
pub fn sanitize_error(error: &str) -> Cow<'_, str> {
    sanitize_text(&error[..error.floor_char_boundary(MAX_ERROR_BYTES)])
}

/// A text as it is stored: without U+0000.
pub fn sanitize_text(text: &str) -> Cow<'_, str> {
    if is_clean(text) { Cow::Borrowed(text) } else { Cow::Owned(text.replace('\0', "\u{fffd}")) }
}

fn sanitize_object(object: &Map<String, Value>) -> Map<String, Value> {
    object.iter().map(|(name, value)| (sanitize_text(name).into_owned(), sanitize_value(value))).collect()
}

fn sanitize_value(value: &Value) -> Value {
    match value {
        Value::String(string) => Value::String(sanitize_text(string).into_owned()),
        Value::Array(values) => values.iter().map(sanitize_value).collect(),
        Value::Object(fields) => Value::Object(sanitize_object(fields)),
        Value::Number(number) if is_too_large(number) => number.as_f64().into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn is_clean(text: &str) -> bool {
    !text.contains('\0')
}

fn is_clean_object(object: &Map<String, Value>) -> bool {
    object.iter().all(|(name, value)| is_clean(name) && is_clean_value(value))
}

fn is_clean_value(value: &Value) -> bool {
    match value {
        Value::String(string) => is_clean(string),
        Value::Array(values) => values.iter().all(is_clean_value),
        Value::Object(fields) => is_clean_object(fields),
        Value::Number(number) => !is_too_large(number),
        Value::Null | Value::Bool(_) => true,
    }
}

/// Whether an integer exceeds signed 64 bits.
fn is_too_large(number: &serde_json::Number) -> bool {
    number.is_u64() && !number.is_i64()
}

fn fits_depth(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(values) => values.iter().all(|value| fits_depth(value, below)),
        Value::Object(fields) => fields.values().all(|value| fits_depth(value, below)),
        _ => true,
    }
}

fn object_size(object: &Map<String, Value>) -> usize {
    object.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &Value) -> usize {
    const VALUE_OVERHEAD: usize = 16;
    VALUE_OVERHEAD
        + match value {
            Value::String(string) => string.len(),
            Value::Array(values) => values.iter().map(value_size).sum(),
            Value::Object(fields) => object_size(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn storable_content_is_not_copied() {
        let details = json!({ "it": [1, -1, i64::MAX, 0.5, "text", { "a": null }] });
        let additional_details = details.as_object().cloned().unwrap_or_default();
        let content = FetchedContent { additional_details, ..FetchedContent::default() };
        assert!(matches!(content.sanitized(), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn a_request_without_an_id_is_refused() {
        let requested_at = Timestamp::from_millis(1);
        let request = RecordRequest { url: "u".to_owned(), message_id: String::new(), requested_at };
        assert!(request.sanitized(requested_at).is_err());
    }
}
