//! The shape in which cookies are kept.

use super::headers::{add, text};
use serde_json::{Map, Value, json};

/// A cookie as a server has set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    /// Its name, which can be empty.
    pub name: String,
    /// Its value, with its quotation marks if it has such.
    pub value: String,
    /// Its attributes by name, in lower case: with a value, or as a mere word such as `secure`. Of several with
    /// one name the last counts.
    pub attributes: Vec<(String, Option<String>)>,
}

impl Cookie {
    /// Reads what a `Set-Cookie` says, as RFC 6265 has browsers read it: anything is read, and a pair without `=` is
    /// a value without a name.
    pub fn read(line: &[u8]) -> Self {
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

/// Cookies as an object: each name with `{"value", "attributes"}`, where an attribute without a value is `true`. A
/// name that was set several times, for other paths or domains, has an array of these, in the order they came in.
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
        let shown = serde_json::to_string_pretty(&cookies(lines.map(Cookie::read))).unwrap();
        insta::assert_snapshot!(shown);
    }
}
