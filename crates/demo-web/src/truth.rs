//! The truth about a web: what a correct crawler ends up with, and what it leaves alone.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What a crawler that starts at [`start`](Self::start), reads the sitemap there and follows every link must end up with.
///
/// All URLs are absolute and in normal form: lower-case host, no fragment, no dot segments, escapes in upper case and
/// only where they are needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// Where the crawl begins.
    pub start: Vec<String>,
    /// What must be in the index, each exactly once.
    pub indexed: BTreeMap<String, Indexed>,
    /// What may be asked for and must not be in the index, and why.
    pub not_indexed: BTreeMap<String, Why>,
    /// What fails however often it is tried, and must end as a dead letter.
    pub dead: BTreeSet<String>,
    /// What robots.txt disallows: never to be asked for.
    pub forbidden: BTreeSet<String>,
    /// What only `nofollow` links lead to: never asked for by a crawler that honours them.
    pub unfollowed: BTreeSet<String>,
    /// What no link leads to, only the sitemap of the start's host: in [`indexed`](Self::indexed) too, and out of reach
    /// for a crawler that does not read sitemaps.
    pub only_in_sitemaps: BTreeSet<String>,
    /// Other spellings that links use, and the URL in normal form that each stands for.
    pub spellings: BTreeMap<String, String>,
    /// How URLs begin of which there is no end. A crawler may have some of them, but not for ever.
    pub endless: Vec<String>,
}

/// A page that must be in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Indexed {
    /// Its title, which no other page has, copies excepted.
    pub title: String,
    /// A word of its text that no other page has, copies excepted. Webs made for reading have none.
    pub word: Option<String>,
    /// The page that it repeats.
    pub duplicate: Option<Duplicate>,
}

/// How a page repeats another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Duplicate {
    /// Byte by byte the page at this URL.
    Copy(String),
    /// The page at this URL with another title and at most a word or two changed.
    Near(String),
}

impl Duplicate {
    /// The URL of the page that is repeated.
    #[must_use]
    pub fn of(&self) -> &str {
        match self {
            Self::Copy(of) | Self::Near(of) => of,
        }
    }
}

/// Why a URL is not in the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The page asks for it, in its `<meta>` or in a header.
    Noindex,
    /// The page names another URL as its canonical one.
    Canonical(String),
    /// It redirects, in the end to this URL.
    Redirect(String),
    /// It redirects in a circle.
    RedirectLoop,
    /// It has this status, which trying again does not change.
    Status(u16),
    /// It is not a page.
    NotHtml,
    /// It fails however often it is tried; see [`Truth::dead`].
    Fails,
}

/// Whether a crawler keeps pages that repeat others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Each URL has its document.
    Kept,
    /// Of pages that are copies or nearly so, at least one has a document and the others may.
    Folded,
}

/// What an index has that differs from the truth. Empty lists mean that it is right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// Missing in the index.
    pub missing: Vec<String>,
    /// In the index, and should not be.
    pub unexpected: Vec<String>,
    /// In the index more than once.
    pub twice: Vec<String>,
}

impl Differences {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.twice.is_empty()
    }
}

impl Truth {
    /// Compares the URLs of all documents of an index with the truth.
    pub fn compare(&self, found: impl IntoIterator<Item = String>, duplicates: Duplicates) -> Differences {
        let mut differences = Differences::default();
        let mut seen: HashSet<String> = HashSet::new();
        for url in found {
            if seen.contains(&url) {
                differences.twice.push(url);
                continue;
            }
            if !self.indexed.contains_key(&url) && !self.is_endless(&url) {
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

    /// Whether a URL is one of those of which there is no end.
    #[must_use]
    pub fn is_endless(&self, url: &str) -> bool {
        self.endless.iter().any(|start| url.starts_with(start.as_str()))
    }

    /// Pages and what they repeat, copies and near ones: `(the other, the first)`.
    pub fn duplicates(&self) -> impl Iterator<Item = (&str, &Duplicate)> {
        self.indexed.iter().filter_map(|(url, page)| Some((url.as_str(), page.duplicate.as_ref()?)))
    }

    /// What must never be asked for: what robots.txt disallows, what only `nofollow` links lead to, and spellings
    /// that are not in normal form.
    pub fn untouched(&self) -> impl Iterator<Item = &str> {
        let spellings = self.spellings.keys().filter(|spelling| !spelling.contains('#'));
        self.forbidden.iter().chain(&self.unfollowed).chain(spellings).map(String::as_str)
    }
}

fn family<'a>(url: &'a str, page: &'a Indexed) -> &'a str {
    page.duplicate.as_ref().map_or(url, Duplicate::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> Truth {
        let page = |duplicate| Indexed { title: String::new(), word: None, duplicate };
        Truth {
            indexed: [
                ("a".to_owned(), page(None)),
                ("b".to_owned(), page(Some(Duplicate::Near("a".to_owned())))),
                ("c".to_owned(), page(None)),
            ]
            .into(),
            endless: vec!["trap/".to_owned()],
            ..Truth::default()
        }
    }

    fn compare(found: &[&str], duplicates: Duplicates) -> Differences {
        truth().compare(found.iter().map(|url| (*url).to_owned()), duplicates)
    }

    #[test]
    fn a_right_index_has_no_differences() {
        assert!(compare(&["a", "b", "c", "trap/1"], Duplicates::Kept).is_empty());
        assert!(compare(&["b", "c"], Duplicates::Folded).is_empty());
    }

    #[test]
    fn each_difference_is_named() {
        assert_eq!(compare(&["a", "c"], Duplicates::Kept).missing, ["b"]);
        assert_eq!(compare(&["c"], Duplicates::Folded).missing, ["a", "b"]);
        assert_eq!(compare(&["a", "b", "c", "d"], Duplicates::Kept).unexpected, ["d"]);
        assert_eq!(compare(&["a", "b", "c", "c"], Duplicates::Kept).twice, ["c"]);
    }
}
