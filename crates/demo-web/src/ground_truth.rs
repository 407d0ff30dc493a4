//! Ground truth of a web: the expected result of a correct crawler.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Expected result of a crawler that starts at [`start`](Self::start), reads the sitemap there and follows every link.
///
/// All URLs are absolute and normalised: lower-case host, no fragment, no dot segments, minimal escapes in upper case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GroundTruth {
    /// Seed URLs.
    pub start: Vec<String>,
    /// Pages that must be in the index, each exactly once.
    pub indexed: BTreeMap<String, ExpectedPage>,
    /// URLs that may be requested and must not be in the index, with the reason.
    pub not_indexed: BTreeMap<String, NotIndexed>,
    /// URLs that always fail and must end as dead letters.
    pub dead: BTreeSet<String>,
    /// URLs that robots.txt disallows.
    pub forbidden: BTreeSet<String>,
    /// URLs with `nofollow` links only.
    pub unfollowed: BTreeSet<String>,
    /// Pages that only the sitemap of the seed's host lists; in [`indexed`](Self::indexed) too.
    pub only_in_sitemaps: BTreeSet<String>,
    /// Equivalent forms of URLs in links, with their normalised URLs.
    pub spellings: BTreeMap<String, String>,
    /// URL prefixes of crawler traps. A crawler may index some of their URLs.
    pub endless: Vec<String>,
}

/// Page that must be in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExpectedPage {
    /// Title, unique except for duplicates.
    pub title: String,
    /// Word of its text, unique except for duplicates; `None` in the demo web.
    pub word: Option<String>,
    /// Page that it duplicates.
    pub duplicate: Option<Duplicate>,
}

/// Kind of duplicate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplicate {
    /// Exact duplicate of the page at this URL.
    Copy(String),
    /// Near-duplicate of the page at this URL: another title, and a word or two changed.
    Near(String),
}

impl Duplicate {
    /// URL of the original.
    #[must_use]
    pub fn of(&self) -> &str {
        match self {
            Self::Copy(of) | Self::Near(of) => of,
        }
    }
}

/// Reason why a URL is not in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotIndexed {
    /// `noindex` in `<meta>` or a header.
    Noindex,
    /// Another canonical URL.
    Canonical(String),
    /// Redirect chain to this URL.
    Redirect(String),
    /// Redirect loop.
    RedirectLoop,
    /// Permanent error status.
    Status(u16),
    /// Not HTML.
    NotHtml,
    /// Permanent failure; see [`GroundTruth::dead`].
    Fails,
}

/// Treatment of duplicates by a crawler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Every URL has a document.
    Kept,
    /// At least one of the duplicates has a document.
    Folded,
}

/// Differences between an index and the ground truth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// Missing in the index.
    pub missing: Vec<String>,
    /// In the index, but not expected.
    pub unexpected: Vec<String>,
    /// In the index more than once.
    pub duplicated: Vec<String>,
}

impl Differences {
    /// Whether there are no differences.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.duplicated.is_empty()
    }
}

impl GroundTruth {
    /// Compares the URLs of all documents of an index with the ground truth.
    pub fn compare(&self, indexed: impl IntoIterator<Item = String>, duplicates: Duplicates) -> Differences {
        let mut differences = Differences::default();
        let mut seen: HashSet<String> = HashSet::new();
        for url in indexed {
            if seen.contains(&url) {
                differences.duplicated.push(url);
                continue;
            }
            if !self.indexed.contains_key(&url) && !self.is_trap(&url) {
                differences.unexpected.push(url.clone());
            }
            seen.insert(url);
        }
        let mut families: HashMap<&str, bool> = HashMap::new();
        for (url, page) in &self.indexed {
            *families.entry(family(url, page)).or_default() |= seen.contains(url);
        }
        for (url, page) in &self.indexed {
            let may_be_folded =
                duplicates == Duplicates::Folded && families.get(family(url, page)).is_some_and(|any| *any);
            if !seen.contains(url) && !may_be_folded {
                differences.missing.push(url.clone());
            }
        }
        differences
    }

    /// Whether a URL belongs to a crawler trap.
    #[must_use]
    pub fn is_trap(&self, url: &str) -> bool {
        self.endless.iter().any(|start| url.starts_with(start.as_str()))
    }

    /// Duplicates with their originals.
    pub fn duplicates(&self) -> impl Iterator<Item = (&str, &Duplicate)> {
        self.indexed.iter().filter_map(|(url, page)| Some((url.as_str(), page.duplicate.as_ref()?)))
    }

    /// URLs that must never be requested: disallowed ones, those with `nofollow` links only, and forms that are not
    /// normalised.
    pub fn never_requested(&self) -> impl Iterator<Item = &str> {
        let spellings = self.spellings.keys().filter(|spelling| !spelling.contains('#'));
        self.forbidden.iter().chain(&self.unfollowed).chain(spellings).map(String::as_str)
    }
}

fn family<'a>(url: &'a str, page: &'a ExpectedPage) -> &'a str {
    page.duplicate.as_ref().map_or(url, Duplicate::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> GroundTruth {
        let page = |duplicate| ExpectedPage { title: String::new(), word: None, duplicate };
        GroundTruth {
            indexed: [
                ("a".to_owned(), page(None)),
                ("b".to_owned(), page(Some(Duplicate::Near("a".to_owned())))),
                ("c".to_owned(), page(None)),
            ]
            .into(),
            endless: vec!["trap/".to_owned()],
            ..GroundTruth::default()
        }
    }

    fn compare(found: &[&str], duplicates: Duplicates) -> Differences {
        truth().compare(found.iter().map(|url| (*url).to_owned()), duplicates)
    }

    #[test]
    fn a_correct_index_has_no_differences() {
        assert!(compare(&["a", "b", "c", "trap/1"], Duplicates::Kept).is_empty());
        assert!(compare(&["b", "c"], Duplicates::Folded).is_empty());
    }

    #[test]
    fn each_difference_is_reported() {
        assert_eq!(compare(&["a", "c"], Duplicates::Kept).missing, ["b"]);
        assert_eq!(compare(&["c"], Duplicates::Folded).missing, ["a", "b"]);
        assert_eq!(compare(&["a", "b", "c", "d"], Duplicates::Kept).unexpected, ["d"]);
        assert_eq!(compare(&["a", "b", "c", "c"], Duplicates::Kept).duplicated, ["c"]);
    }
}
