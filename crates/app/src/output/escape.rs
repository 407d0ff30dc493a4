//! Escaping: control characters of JSON on a terminal, which JSON allows unescaped and whose value stays the same, and words of a command line.

use super::reorders;
use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

/// Standard output for JSON.
pub(crate) fn json_stdout() -> Box<dyn Write + Send> {
    let stdout = io::stdout();
    if stdout.is_terminal() {
        Box::new(EscapingWriter { inner: stdout, partial: Vec::new() })
    } else {
        Box::new(stdout)
    }
}

/// Word of a command line, in quotes if a POSIX shell needs them.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&octet);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// JSON with control characters escaped. Outside of strings the only one is the line break.
pub(super) fn escaped_json(json: &str) -> Cow<'_, str> {
    let is_control = |c: char| (c.is_control() && c != '\n') || reorders(c);
    if !json.contains(is_control) {
        return json.into();
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_control(c) {
            // All of them are in the basic multilingual plane.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe.into()
}

/// Writer that escapes JSON.
struct EscapingWriter<W> {
    inner: W,
    /// Incomplete UTF-8 sequence at the end of the last write.
    partial: Vec<u8>,
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            // Not UTF-8; passed on with replacement characters.
            Err(_) => self.partial.len(),
        };
        let rest = self.partial.split_off(whole);
        let text = std::mem::replace(&mut self.partial, rest);
        self.inner.write_all(escaped_json(&String::from_utf8_lossy(&text)).as_bytes())?;
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
    fn json_for_a_terminal_is_the_same_value_without_control_characters() {
        let value = serde_json::json!({ "a": "x\u{9b}31m\u{7f}\u{202e}é日\u{1b}[2J\n" });
        let plain = serde_json::to_string_pretty(&value).unwrap();
        let mut writer = EscapingWriter { inner: Vec::new(), partial: Vec::new() };
        // Byte by byte, so that every sequence is split.
        for octet in plain.as_bytes() {
            writer.write_all(&[*octet]).unwrap();
        }
        let shown = String::from_utf8(writer.inner).unwrap();
        assert!(shown.contains("x\\u009b31m\\u007f\\u202eé日\\u001b[2J"), "{shown}");
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
