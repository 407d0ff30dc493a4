//! A batch of rows as one parameter: a JSON array of arrays, which both databases read as a table.

use crate::key::Key;
use std::borrow::Cow;

/// Rows for the `{rows …}` of a statement; fields are added in the order of its columns.
#[derive(Debug)]
pub(crate) struct Rows {
    json: Vec<u8>,
    len: usize,
}

impl Rows {
    pub(crate) fn new() -> Self {
        Self { json: vec![b'['], len: 0 }
    }

    /// Rows of one number each.
    pub(crate) fn of_ints(ints: impl IntoIterator<Item = i64>) -> Self {
        let mut rows = Self::new();
        for int in ints {
            rows.row().int(int);
        }
        rows
    }

    /// Rows of one text each.
    pub(crate) fn of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut rows = Self::new();
        for text in texts {
            rows.row().text(text);
        }
        rows
    }

    /// Rows of one key each.
    pub(crate) fn of_keys(keys: impl IntoIterator<Item = Key>) -> Self {
        let mut rows = Self::new();
        for key in keys {
            rows.row().key(key);
        }
        rows
    }

    /// Begins the next row.
    pub(crate) fn row(&mut self) -> &mut Self {
        self.json.extend_from_slice(if self.len == 0 { b"[" } else { b"],[" });
        self.len += 1;
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn int(&mut self, int: i64) -> &mut Self {
        self.comma();
        self.json.extend_from_slice(int.to_string().as_bytes());
        self
    }

    pub(crate) fn opt_int(&mut self, int: Option<i64>) -> &mut Self {
        match int {
            Some(int) => self.int(int),
            None => self.null(),
        }
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.comma();
        self.json.push(b'"');
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|octet| matches!(octet, b'"' | b'\\' | 0..0x20)) {
            self.json.extend_from_slice(&rest[..at]);
            match rest[at] {
                b'"' => self.json.extend_from_slice(b"\\\""),
                b'\\' => self.json.extend_from_slice(b"\\\\"),
                // U+FFFD, since PostgreSQL has no U+0000.
                0 => self.json.extend_from_slice("\u{fffd}".as_bytes()),
                control => self.json.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
            }
            rest = &rest[at + 1..];
        }
        self.json.extend_from_slice(rest);
        self.json.push(b'"');
        self
    }

    pub(crate) fn opt_text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.text(text),
            None => self.null(),
        }
    }

    pub(crate) fn key(&mut self, key: Key) -> &mut Self {
        self.comma();
        self.json.push(b'"');
        key.hex(&mut self.json);
        self.json.push(b'"');
        self
    }

    pub(crate) fn opt_key(&mut self, key: Option<Key>) -> &mut Self {
        match key {
            Some(key) => self.key(key),
            None => self.null(),
        }
    }

    pub(crate) fn into_json(mut self) -> String {
        self.json.extend_from_slice(if self.len == 0 { b"]" } else { b"]]" });
        // Always valid UTF-8: it consists of `str`s and ASCII.
        String::from_utf8(self.json)
            .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
    }

    fn null(&mut self) -> &mut Self {
        self.comma();
        self.json.extend_from_slice(b"null");
        self
    }

    fn comma(&mut self) {
        if self.json.last() != Some(&b'[') {
            self.json.push(b',');
        }
    }
}

/// The text with U+0000 replaced, as it is stored.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_valid_json() {
        let nasty = "a\"b\\c\n\u{1}\u{7f}é😀\u{2028}";
        let mut rows = Rows::new();
        rows.row().int(-1).text(nasty).opt_text(None);
        rows.row().text("").text("\0");
        let read: serde_json::Value = serde_json::from_str(&rows.into_json()).unwrap();
        assert_eq!(read, serde_json::json!([[-1, nasty, null], ["", "\u{fffd}"]]));
        assert_eq!(Rows::new().into_json(), "[]");
    }
}
