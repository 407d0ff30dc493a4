//! Normalisation of percent-encoding.

/// Appends `part` with upper-case hex digits and with unreserved characters decoded.
///
/// A `%` without hex digits stays. An escape after it is not decoded if that would complete another escape, so that the
/// result is idempotent: `%%34%31` must not become `%%41` and then `%A`.
pub(super) fn push_normal_escapes(normal: &mut String, part: &str, lowercase: bool) {
    let bytes = part.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            // The parser has already percent-encoded everything that is not ASCII.
            let c = char::from(byte);
            normal.push(if lowercase { c.to_ascii_lowercase() } else { c });
            at += 1;
            continue;
        }
        let Some((high, low)) = hex_pair(bytes, at + 1) else {
            normal.push('%');
            at += 1;
            continue;
        };
        let decoded = high << 4 | low;
        if is_unreserved(decoded) && !ends_in_open_escape(normal) {
            let c = char::from(decoded);
            normal.push(if lowercase { c.to_ascii_lowercase() } else { c });
        } else {
            normal.push('%');
            normal.push(char::from(bytes[at + 1].to_ascii_uppercase()));
            normal.push(char::from(bytes[at + 2].to_ascii_uppercase()));
        }
        at += 3;
    }
}

fn hex_pair(bytes: &[u8], at: usize) -> Option<(u8, u8)> {
    Some((hex_digit(*bytes.get(at)?)?, hex_digit(*bytes.get(at + 1)?)?))
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether one more hex digit could turn the end of `text` into (part of) an escape.
fn ends_in_open_escape(text: &str) -> bool {
    match text.as_bytes() {
        [.., b'%'] => true,
        [.., b'%', digit] => digit.is_ascii_hexdigit(),
        _ => false,
    }
}
