//! Normal form of paths for matching: one character per octet, so that `%7E` equals `~` and `%2F` differs from `/`.
//!
//! RFC 9309 compares octets after percent-encoding. In encoded text a pattern could match the middle of an encoded
//! octet (`/*4` would match `/%24`), so an encoded octet becomes one character beyond ASCII. Such text can be
//! searched in linear time by `str::find`.

/// First character for encoded octets.
const ENCODED: u32 = 0x100;

/// Normalised path and query of a URL.
pub(super) struct TargetPath {
    /// Normal form.
    pub(super) plain: String,
    /// Form with encoded delimiters in the query, if it differs. The RFC's example encodes them, while authors do not,
    /// so that both have to match.
    pub(super) query_encoded: Option<String>,
}

impl TargetPath {
    pub(super) fn new(target: &str) -> Self {
        let path = path_and_query(target);
        let mut plain = String::with_capacity(path.len() + 1);
        if !path.starts_with('/') {
            plain.push('/');
        }
        normalise(path.as_bytes(), Stars::Literal, &mut plain);
        let query_encoded = with_query_encoded(&plain);
        Self { plain, query_encoded }
    }

    pub(super) fn is_robots_txt(&self) -> bool {
        self.plain == "/robots.txt"
    }
}

/// Meaning of `*`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stars {
    /// Ordinary octet, as in a URL.
    Literal,
    /// Wildcard, as in a rule. It stays `*`; a literal one is encoded.
    Wildcards,
}

/// Appends the normal form of a path: unreserved characters decoded, invalid ones encoded.
pub(super) fn normalise(path: &[u8], stars: Stars, out: &mut String) {
    let mut rest = path;
    while let Some((&octet, after)) = rest.split_first() {
        rest = after;
        match octet {
            b'%' => match encoded_octet(after) {
                Some(octet) => {
                    rest = &after[2..];
                    out.push(if is_unreserved(octet) { char::from(octet) } else { encoded(octet) });
                }
                None => out.push(encoded(b'%')),
            },
            b'*' if stars == Stars::Wildcards => out.push('*'),
            // So that `%2A` and `%24` in a rule match `*` and `$` in a URL.
            b'*' | b'$' => out.push(encoded(octet)),
            _ if is_unreserved(octet) || is_reserved(octet) => out.push(char::from(octet)),
            _ => out.push(encoded(octet)),
        }
    }
}

/// Normal form with the delimiters after the first `?` encoded; `None` if there are none.
pub(super) fn with_query_encoded(normal: &str) -> Option<String> {
    let query = normal.find('?')? + 1;
    if !normal[query..].contains(is_delimiter) {
        return None;
    }
    let mut text = normal[..query].to_owned();
    text.extend(normal[query..].chars().map(|character| match u8::try_from(character) {
        Ok(octet) if is_delimiter(character) => encoded(octet),
        _ => character,
    }));
    Some(text)
}

/// Number of octets of a normal form in percent-encoding.
pub(super) fn octets(normal: &str) -> usize {
    normal.chars().map(|character| if character.is_ascii() { 1 } else { 3 }).sum()
}

/// Path and query of a URL. Text without a scheme is taken as a path and query.
fn path_and_query(target: &str) -> &str {
    let without_fragment = target.split('#').next().unwrap_or_default();
    let Some((scheme, rest)) = without_fragment.split_once("://") else {
        return without_fragment;
    };
    if scheme.is_empty() || scheme.contains(['/', '?']) {
        return without_fragment;
    }
    rest.find(['/', '?']).map_or("", |start| &rest[start..])
}

fn encoded(octet: u8) -> char {
    char::from_u32(ENCODED + u32::from(octet)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn encoded_octet(digits: &[u8]) -> Option<u8> {
    let [high, low, ..] = digits else {
        return None;
    };
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(value(*high)? << 4 | value(*low)?)
}

fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

fn is_reserved(octet: u8) -> bool {
    is_delimiter(char::from(octet))
        || matches!(octet, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
}

/// General delimiters of RFC 3986.
fn is_delimiter(character: char) -> bool {
    matches!(character, ':' | '/' | '?' | '#' | '[' | ']' | '@')
}
