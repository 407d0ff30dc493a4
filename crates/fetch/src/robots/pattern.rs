//! Path pattern of a rule, with `*` and `$`, matched in linear time.

use super::path::{Stars, TargetPath, normalise, octets, with_query_encoded};

/// Path pattern of a rule.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    plain: Box<str>,
    /// See [`TargetPath::query_encoded`].
    query_encoded: Option<Box<str>>,
    /// Whether it ends with `$`.
    anchored: bool,
    /// Number of octets, with wildcards and `$`: the specificity of the rule.
    pub(super) octets: usize,
}

impl Pattern {
    /// `None` if the path can match nothing: it is empty or starts with neither `/` nor `*`.
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

    /// Stored texts, to estimate memory.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.plain).chain(self.query_encoded.as_deref())
    }

    pub(super) fn matches(&self, target: &TargetPath) -> bool {
        if matches(&self.plain, self.anchored, &target.plain) {
            return true;
        }
        if self.query_encoded.is_none() && target.query_encoded.is_none() {
            return false;
        }
        matches(
            self.query_encoded.as_deref().unwrap_or(&self.plain),
            self.anchored,
            target.query_encoded.as_deref().unwrap_or(&target.plain),
        )
    }
}

/// Matches the literals between the wildcards from left to right, each at its first occurrence. A later occurrence
/// would leave less for the rest, so that no backtracking is needed.
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
