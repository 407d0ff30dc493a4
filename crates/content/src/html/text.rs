//! Text normalisation: collapses white space, removes invisible characters, counts words.

/// Pending white space before the next visible character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Gap {
    #[default]
    None,
    Space,
    Line,
}

enum Special {
    Space,
    Invisible,
}

/// Appends `run` to `out`, each run of white space as one space.
///
/// `gap` carries white space from one run to the next; with `keep_lines` a line break stays one.
/// White space is not written while `out` is still at `block_start`.
pub(crate) fn append_collapsed(
    out: &mut Vec<u8>,
    block_start: usize,
    gap: &mut Gap,
    run: &[u8],
    keep_lines: bool,
) {
    let mut at = 0;
    while at < run.len() {
        let byte = run[at];
        if byte <= b' ' {
            *gap = if keep_lines && byte == b'\n' { Gap::Line } else { (*gap).max_space() };
            at += 1;
            continue;
        }
        if let Some((special, length)) = special(&run[at..]) {
            if matches!(special, Special::Space) {
                *gap = (*gap).max_space();
            }
            at += length;
            continue;
        }
        let visible = visible_length(&run[at..]);
        if out.len() > block_start {
            match *gap {
                Gap::None => {}
                Gap::Space => out.push(b' '),
                Gap::Line => out.push(b'\n'),
            }
        }
        *gap = Gap::None;
        out.extend_from_slice(&run[at..at + visible]);
        at += visible;
    }
}

/// Length of the visible characters at the start of `text`, with single spaces between words.
fn visible_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk())
        && is_plain(chunk)
    {
        at += PLAIN;
    }
    loop {
        at += text[at..].iter().position(|&byte| STOPS[usize::from(byte)]).unwrap_or(text.len() - at);
        match text[at..] {
            [b' ', next, ..] if !STOPS[usize::from(next)] => at += 2,
            _ => return at,
        }
    }
}

/// Bytes per step of [`is_plain`].
const PLAIN: usize = 32;

/// Whether all but the last byte are visible ASCII with single spaces. The last byte is the look-ahead after a space.
/// Branch-free, so that it is vectorised.
fn is_plain(chunk: &[u8; PLAIN + 1]) -> bool {
    let mut other = false;
    for at in 0..PLAIN {
        let (byte, next) = (chunk[at], chunk[at + 1]);
        let at_gap = (byte == b' ') & ((next <= b' ') | (next >= 0x80));
        other |= !byte.is_ascii() | byte.is_ascii_control() | at_gap;
    }
    !other
}

impl Gap {
    fn max_space(self) -> Self {
        if self == Self::Line { self } else { Self::Space }
    }
}

/// Bytes that end a run of visible bytes: white space, and the first bytes of [`special`] characters.
static STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    let mut byte = 0;
    while byte <= 0x20 {
        stops[byte] = true;
        byte += 1;
    }
    stops[0xc2] = true;
    stops[0xe2] = true;
    stops[0xe3] = true;
    stops[0xef] = true;
    stops
};

/// Spaces and invisible characters beyond ASCII. The joiners U+200C and U+200D stay, since Persian, Indic scripts and emoji
/// need them.
fn special(bytes: &[u8]) -> Option<(Special, usize)> {
    match *bytes {
        [0xc2, 0xa0 | 0x85, ..] => Some((Special::Space, 2)),
        [0xc2, 0xad, ..] => Some((Special::Invisible, 2)),
        [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..]
        | [0xe2, 0x81, 0x9f, ..]
        | [0xe3, 0x80, 0x80, ..] => Some((Special::Space, 3)),
        [0xe2, 0x80, 0x8b | 0x8e | 0x8f | 0xaa..=0xae, ..]
        | [0xe2, 0x81, 0xa0..=0xa4 | 0xa6..=0xa9, ..]
        | [0xef, 0xbb, 0xbf, ..] => Some((Special::Invisible, 3)),
        _ => None,
    }
}

/// Text with collapsed white space and without invisible characters.
pub(crate) fn collapsed(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    append_collapsed(&mut out, 0, &mut Gap::None, text, false);
    into_string(out)
}

/// Text for the index: lower case, collapsed and trimmed white space.
#[must_use]
pub fn index_text(text: &str) -> String {
    let mut collapsed = collapsed(text.as_bytes());
    if collapsed.is_ascii() {
        collapsed.make_ascii_lowercase();
        return collapsed;
    }
    collapsed.to_lowercase()
}

/// Converts to a string. Truncated attribute values may be invalid UTF-8.
pub(crate) fn into_string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Number of words and clauses of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Measure {
    /// Words; two characters count as one in scripts without spaces.
    pub words: u32,
    /// Punctuation marks of clauses, followed by a space or the end.
    pub clauses: u32,
}

/// Counts words and clauses.
pub(crate) fn measure(text: &[u8]) -> Measure {
    let mut words = 0;
    let mut clauses = 0;
    let mut unspaced_bytes = 0;
    let mut previous = b' ';
    for &byte in text {
        if byte <= b' ' {
            clauses += u32::from(matches!(previous, b'.' | b',' | b';' | b'?' | b'!' | b':'));
        } else if previous <= b' ' {
            words += 1;
        }
        // Lead bytes of U+3000 to U+9FFF: kana and Han.
        unspaced_bytes += u32::from(matches!(byte, 0xe3..=0xe9));
        previous = byte;
    }
    clauses += u32::from(matches!(previous, b'.' | b',' | b';' | b'?' | b'!' | b':'));
    if unspaced_bytes > words {
        let stops = text.windows(3).filter(|mark| is_wide_mark(mark)).count();
        clauses += u32::try_from(stops).unwrap_or(u32::MAX);
        words += unspaced_bytes / 2;
    }
    Measure { words, clauses }
}

/// Ideographic and full-width commas and stops.
fn is_wide_mark(bytes: &[u8]) -> bool {
    matches!(bytes, [0xe3, 0x80, 0x81 | 0x82] | [0xef, 0xbc, 0x81 | 0x8c | 0x9b | 0x9f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_of_all_kinds_collapses() {
        assert_eq!(collapsed(" a\u{a0}\u{3000}b\r\n\tc \u{2009}d ".as_bytes()), "a b c d");
        assert_eq!(
            collapsed("so\u{ad}ft\u{200b}\u{feff} \u{200e}می\u{200c}خواهم".as_bytes()),
            "soft می\u{200c}خواهم"
        );
        assert_eq!(collapsed("€—“”、。！".as_bytes()), "€—“”、。！");
    }

    #[test]
    fn long_runs_are_collapsed_like_short_ones() {
        let pieces = ["word", " ", "  ", "\n", "\u{a0}", "\u{ad}", "é", "東", " \u{3000}", "x"];
        // Each pair of pieces at each position in a chunk.
        for first in pieces {
            for second in pieces {
                for before in 0..PLAIN + 2 {
                    let text = format!("{}{first}{second}{}", "a b".repeat(before), "c d".repeat(PLAIN));
                    let mut expected = String::new();
                    let mut gap = false;
                    for c in text.chars().filter(|c| *c != '\u{ad}') {
                        if c.is_whitespace() {
                            gap = !expected.is_empty();
                            continue;
                        }
                        if std::mem::take(&mut gap) {
                            expected.push(' ');
                        }
                        expected.push(c);
                    }
                    assert_eq!(collapsed(text.as_bytes()), expected, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn index_text_is_lower_case_in_all_scripts() {
        assert_eq!(index_text("  Hello\n\nWORLD "), "hello world");
        assert_eq!(index_text("ÀÉ ΑΘΗΝΑΣ МОСКВА"), "àé αθηνας москва");
    }

    #[test]
    fn words_are_counted_with_and_without_spaces() {
        assert_eq!(measure(b"One, two. Three"), Measure { words: 3, clauses: 2 });
        assert_eq!(measure("今日は、いい天気です。".as_bytes()), Measure { words: 6, clauses: 2 });
        assert_eq!(measure(b""), Measure::default());
    }
}
