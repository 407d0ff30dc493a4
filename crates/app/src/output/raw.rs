//! JSON on a terminal: characters that JSON may have as they are, and that a terminal would obey, are escaped. The value stays the same.

use super::reorders;
use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

/// Standard output for JSON.
pub(crate) fn json_lines() -> Box<dyn Write + Send> {
    let stdout = io::stdout();
    if stdout.is_terminal() {
        Box::new(Escaping { inner: stdout, begun: Vec::new() })
    } else {
        Box::new(stdout)
    }
}

/// JSON with what a terminal would obey escaped. Outside of its texts there is no such character but the end of a line.
pub(super) fn escaped(json: &str) -> Cow<'_, str> {
    let obeyed = |c: char| (c.is_control() && c != '\n') || reorders(c);
    if !json.contains(obeyed) {
        return json.into();
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if obeyed(c) {
            // All of them are in the first plane.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

/// Escapes JSON on its way.
struct Escaping<W> {
    inner: W,
    /// A character of which the rest is still to come.
    begun: Vec<u8>,
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // No text; what it is can be seen.
            Err(_) => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = std::mem::replace(&mut self.begun, rest);
        self.inner.write_all(escaped(&String::from_utf8_lossy(&text)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_is_the_same_value_without_what_it_would_obey() {
        let value = serde_json::json!({ "a": "x\u{9b}31m\u{7f}\u{202e}é日\u{1b}[2J\n" });
        let plain = serde_json::to_string_pretty(&value).unwrap();
        let mut escaping = Escaping { inner: Vec::new(), begun: Vec::new() };
        // However it is cut into pieces.
        for octet in plain.as_bytes() {
            escaping.write_all(&[*octet]).unwrap();
        }
        let shown = String::from_utf8(escaping.inner).unwrap();
        assert!(shown.contains("x\\u009b31m\\u007f\\u202eé日\\u001b[2J"), "{shown}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
