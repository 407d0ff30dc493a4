//! The form in which paths are compared: one character for each octet, so that `%7E` is `~` and `%2F` is not `/`.
//!
//! RFC 9309 compares octets after percent-encoding. Comparing the encoded text would let a pattern match the
//! middle of an encoded octet (`/*4` would match `/%24`), so an encoded octet becomes a single character
//! beyond ASCII instead. Such text can be searched with the linear search of `str`.

/// Where the characters for encoded octets begin.
const ENCODED: u32 = 0x100;

/// A path and query to be matched.
pub(super) struct Address {
    /// The usual form.
    pub(super) plain: String,
    /// The form with the delimiters inside the query encoded, if it differs. The RFC's own example encodes
    /// them, while authors write them as they are, so that both have to match.
    pub(super) query_encoded: Option<String>,
}

impl Address {
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

/// What `*` is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stars {
    /// An octet like others, as in a URL.
    Literal,
    /// A wildcard, as in a rule; it stays `*`, which no literal one does.
    Wildcards,
}

/// Appends the normal form of a path: unreserved characters decoded, all that may not stand in a URL encoded.
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
            // Otherwise the RFC's `%2A` and `%24` could not match what they stand for.
            b'*' | b'$' => out.push(encoded(octet)),
            _ if is_unreserved(octet) || is_reserved(octet) => out.push(char::from(octet)),
            _ => out.push(encoded(octet)),
        }
    }
}

/// The same with the delimiters encoded that have no meaning behind the first `?`, if there are any.
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

/// How many octets a normal form has when it is written with percent-encoding.
pub(super) fn octets(normal: &str) -> usize {
    normal.chars().map(|character| if character.is_ascii() { 1 } else { 3 }).sum()
}

/// What of a URL rules are about. What is no whole URL is taken as a path and query.
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

/// RFC 3986 calls these the general delimiters.
fn is_delimiter(character: char) -> bool {
    matches!(character, ':' | '/' | '?' | '#' | '[' | ']' | '@')
}
