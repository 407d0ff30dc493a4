//! The path of a rule, with `*` and `$`, and how it is matched in linear time.

use super::normal::{Address, Stars, normalise, octets, with_query_encoded};

/// The path of a rule.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    plain: Box<str>,
    /// See [`Address::query_encoded`].
    query_encoded: Option<Box<str>>,
    /// Whether it ends with `$`.
    anchored: bool,
    /// How many octets it has, wildcards and `$` included: the more, the more specific it is.
    pub(super) octets: usize,
}

impl Pattern {
    /// None if the path can match nothing: if it is empty or starts with neither `/` nor `*`.
    pub(super) fn new(path: &[u8]) -> Option<Self> {
        if !matches!(path.first(), Some(b'/' | b'*')) {
            return None;
        }
        let (path, anchored) = match path.strip_suffix(b"$") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let mut plain = String::with_capacity(path.len());
        normalise(path, Stars::Wildcards, &mut plain);
        let query_encoded = with_query_encoded(&plain).map(String::into_boxed_str);
        let octets = octets(&plain) + usize::from(anchored);
        Some(Self { plain: plain.into_boxed_str(), query_encoded, anchored, octets })
    }

    /// What it keeps.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.plain).chain(self.query_encoded.as_deref())
    }

    pub(super) fn matches(&self, address: &Address) -> bool {
        if matches(&self.plain, self.anchored, &address.plain) {
            return true;
        }
        if self.query_encoded.is_none() && address.query_encoded.is_none() {
            return false;
        }
        matches(
            self.query_encoded.as_deref().unwrap_or(&self.plain),
            self.anchored,
            address.query_encoded.as_deref().unwrap_or(&address.plain),
        )
    }
}

/// Takes the literals between the wildcards from left to right, each at the first place where it fits.
/// A later place could only leave less for those that follow, so nothing has to be tried twice.
fn matches(pattern: &str, anchored: bool, path: &str) -> bool {
    let mut literals = pattern.split('*');
    let start = literals.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(start) else {
        return false;
    };
    let Some(end) = literals.next_back() else {
        return !anchored || rest.is_empty();
    };
    for literal in literals {
        let Some(at) = rest.find(literal) else {
            return false;
        };
        rest = &rest[at + literal.len()..];
    }
    if anchored { rest.ends_with(end) } else { rest.contains(end) }
}
