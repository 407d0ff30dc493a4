//! Cookies as JSON.

use super::headers::{add, text};
use serde_json::{Map, Value, json};

/// A cookie as set by a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Name, possibly empty.
    pub name: String,
    /// Value, including quotation marks.
    pub value: String,
    /// Attributes by lower-case name, with a value or without one, such as `secure`. The last of several with one name
    /// counts.
    pub attributes: Vec<(String, Option<String>)>,
}

impl Cookie {
    /// Parses a `Set-Cookie` header as browsers do (RFC 6265): every input is accepted, and a pair without `=` is a
    /// value without a name.
    pub fn parse(line: &[u8]) -> Self {
        let line = text(line);
        let mut parts = line.split(';');
        let pair = parts.next().unwrap_or_default();
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let attributes = parts.map(str::trim).filter(|part| !part.is_empty()).map(|part| {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, Some(value.trim().to_owned())),
                None => (part, None),
            };
            (name.trim().to_lowercase(), value)
        });
        Self {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            attributes: attributes.collect(),
        }
    }
}

/// Cookies as a JSON object: each name with `{"value", "attributes"}`, where an attribute without a value is `true`. A
/// name that was set several times, for other paths or domains, has an array of these, in the order of the headers.
pub fn cookies(set: impl IntoIterator<Item = Cookie>) -> Map<String, Value> {
    let mut cookies = Map::new();
    for Cookie { name, value, attributes } in set {
        let attributes: Map<String, Value> = attributes
            .into_iter()
            .map(|(name, value)| (name, value.map_or(Value::Bool(true), Value::String)))
            .collect();
        add(&mut cookies, name, json!({ "value": value, "attributes": attributes }));
    }
    cookies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_keep_their_attributes_and_their_namesakes() {
        let lines: [&[u8]; 6] = [
            b"id=a3fWa; Expires=Thu, 21 Oct 2027 07:28:00 GMT; Secure; HttpOnly",
            b"theme=dark; Path=/a; path=/b",
            b" theme = \"light\" ;Path=/c;; SameSite=Lax",
            b"=nameless",
            b"no pair",
            b"caf\xe9=x=y",
        ];
        let shown = serde_json::to_string_pretty(&cookies(lines.map(Cookie::parse))).unwrap();
        insta::assert_snapshot!(shown);
    }
}
