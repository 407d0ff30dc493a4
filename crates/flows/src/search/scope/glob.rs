//! URL patterns: `*` matches any text.

/// URL pattern. It matches the whole URL if it contains `://`, else path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    parts: Vec<String>,
    is_whole_url: bool,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let parts = pattern.split('*').map(str::to_owned).collect();
        Self { parts, is_whole_url: pattern.contains("://") }
    }

    pub(super) fn matches(&self, url: &crawlway_content::NormalUrl) -> bool {
        matches_parts(&self.parts, if self.is_whole_url { url.as_str() } else { url.path_and_query() })
    }
}

fn matches_parts(parts: &[String], text: &str) -> bool {
    let [first, middle @ .., last] = parts else {
        return parts.first().is_some_and(|only| only == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        let matches = |pattern: &str, url: &str| Glob::new(pattern).matches(&url.parse().unwrap());
        for (pattern, url, expected) in [
            ("/blog/*", "https://a.test/blog/1", true),
            ("/blog/*", "https://a.test/blog", false),
            ("/blog", "https://a.test/blog", true),
            ("/blog", "https://a.test/blog/", false),
            ("*", "https://a.test/", true),
            ("*.pdf", "https://a.test/x.pdf", true),
            ("*.pdf", "https://a.test/x.pdf?a=1", false),
            ("/a*b*a", "https://a.test/aba", true),
            ("/a*a", "https://a.test/a", false),
            ("*?sort=*", "https://a.test/list?sort=up", true),
            ("https://a.test/*", "https://a.test/x", true),
            ("https://a.test/*", "http://a.test/x", false),
            ("*://*.test/x", "https://a.test/x", true),
        ] {
            assert_eq!(matches(pattern, url), expected, "{pattern} {url}");
        }
    }
}
