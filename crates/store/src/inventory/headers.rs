//! HTTP headers as JSON.

use serde_json::{Map, Value};

/// Headers as a JSON object: each lower-case name with its value, or with an array of its values in order if it is
/// repeated. A value that is not UTF-8 is decoded as ISO 8859-1, so that nothing is lost.
pub fn headers<'a>(lines: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Map<String, Value> {
    let mut headers = Map::new();
    for (name, value) in lines {
        add(&mut headers, name.to_lowercase(), Value::String(text(value)));
    }
    headers
}

/// Adds a value under a name; several values of a name become an array.
pub(super) fn add(object: &mut Map<String, Value>, name: String, value: Value) {
    match object.get_mut(&name) {
        None => drop(object.insert(name, value)),
        Some(Value::Array(values)) => values.push(value),
        Some(only) => *only = Value::Array(vec![only.take(), value]),
    }
}

/// Decodes a value as UTF-8, or else as ISO 8859-1.
pub(super) fn text(octets: &[u8]) -> String {
    match std::str::from_utf8(octets) {
        Ok(text) => text.to_owned(),
        Err(_) => octets.iter().copied().map(char::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn repeated_and_undecodable_headers_are_kept() {
        let lines: [(&str, &[u8]); 7] = [
            ("Via", b"1.1 a"),
            ("content-type", b"text/html"),
            ("via", b""),
            ("x-latin", b"caf\xe9"),
            ("x-utf", "café".as_bytes()),
            ("VIA", b"1.1 a"),
            ("$odd.name", b"a\0b"),
        ];
        assert_eq!(
            Value::Object(headers(lines)),
            json!({
                "via": ["1.1 a", "", "1.1 a"], "content-type": "text/html", "x-latin": "café", "x-utf": "café",
                "$odd.name": "a\0b",
            })
        );
    }
}
