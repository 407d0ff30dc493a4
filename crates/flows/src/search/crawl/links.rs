//! Links of a page: selection by the scope, and their stored form.

use super::super::scope::{From, Scope};
use crawlway_broker::MessageId;
use crawlway_clock::Timestamp;
use crawlway_content::{
    NormalUrl,
    html::{Link, Rel},
};
use crawlway_store::frontier::{NewUrl, PageLinks};
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
};

/// Selected links of a page.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Followed links without duplicates, for the frontier.
    pub(super) followed: Vec<NewUrl>,
    /// Number of links that are not followed, by reason.
    skipped: BTreeMap<&'static str, usize>,
    /// All links that some scope could follow, stored with the page for a later scope; `None` if they are too many.
    pub(super) stored: Option<String>,
}

/// Maximum size of stored links, in bytes. A page with more is fetched again when they are needed.
const MAX_STORED_BYTES: usize = 256 << 10;

/// Selects the links of a page that are followed.
pub(super) fn select(
    links: Vec<Link>,
    scope: &Scope,
    from: From<'_>,
    item: &str,
    page_nofollow: bool,
    this_year: u64,
) -> Links {
    let mut selected = Links { stored: Some(String::new()), ..Links::default() };
    if page_nofollow {
        if !links.is_empty() {
            selected.skipped.insert("nofollow", links.len());
        }
        return selected;
    }
    let mut seen = HashSet::new();
    let followable = |link: &&Link| !link.rel.nofollow;
    selected.stored = encode(links.iter().filter(followable).map(|link| link.url.as_str()));
    for link in links {
        if link.rel.nofollow {
            *selected.skipped.entry("nofollow").or_default() += 1;
            continue;
        }
        match scope.follow(link.url, from, this_year) {
            Ok(followed) => {
                if seen.insert(followed.url.as_str().to_owned()) {
                    let (depth, chain) = (followed.depth, followed.chain);
                    let url = new_url(followed.url, depth, chain, Some(item));
                    selected.followed.push(NewUrl { budget: followed.budget, ..url });
                }
            }
            Err(reason) => *selected.skipped.entry(reason).or_default() += 1,
        }
    }
    selected
}

/// Encodes links with shared prefixes: a line per link, with the number of bytes it shares with the previous one, and the
/// rest.
fn encode<'l>(links: impl Iterator<Item = &'l str>) -> Option<String> {
    let mut encoded = String::new();
    let mut before = "";
    for link in links.filter(|link| !link.contains('\n')) {
        let shared = before.bytes().zip(link.bytes()).take_while(|(a, b)| a == b).count();
        let shared = (0..=shared).rev().find(|end| link.is_char_boundary(*end)).unwrap_or(0);
        let _ = writeln!(encoded, "{shared} {}", &link[shared..]);
        if encoded.len() > MAX_STORED_BYTES {
            return None;
        }
        before = link;
    }
    Some(encoded)
}

/// Decodes the output of [`encode`]. Invalid lines are skipped.
fn decode(encoded: &str) -> Vec<NormalUrl> {
    let mut before = String::new();
    let mut links = Vec::new();
    for line in encoded.lines() {
        let Some((shared, rest)) = line.split_once(' ') else { continue };
        let Some(start) = shared.parse().ok().and_then(|shared: usize| before.get(..shared)) else {
            continue;
        };
        before = format!("{start}{rest}");
        links.extend(before.parse::<NormalUrl>());
    }
    links
}

/// Stored links of a page that a scope follows.
pub(crate) fn follow_stored(page: &PageLinks, scope: &Scope, now: Timestamp) -> Vec<NewUrl> {
    let Ok(url) = page.url.parse::<NormalUrl>() else { return Vec::new() };
    let kind = Scope::kind(&url);
    let from = From { kind: &kind, depth: page.depth, chain: page.chain };
    let links =
        decode(&page.links).into_iter().map(|url| Link { url, rel: Rel::default(), text: String::new() });
    select(links.collect(), scope, from, &page.item, false, now.civil().0).followed
}

/// New URL for the frontier.
pub(crate) fn new_url(url: NormalUrl, depth: u32, chain: u32, found_on: Option<&str>) -> NewUrl {
    NewUrl {
        item: MessageId::random().as_str().to_owned(),
        // The origin: the origins of a host share its rate limit, but not its outages.
        host: url.origin().to_owned(),
        url: url.into_string(),
        depth,
        chain,
        found_on: found_on.map(str::to_owned),
        ignore_canonical: false,
        ignore_limit: false,
        budget: None,
    }
}

impl Links {
    /// Summary for the trail, if links were skipped.
    pub(super) fn summary(&self) -> Option<String> {
        if self.skipped.is_empty() {
            return None;
        }
        let mut summary = format!("links: {} followed", self.followed.len());
        for (reason, count) in &self.skipped {
            let _ = write!(summary, ", {count} skipped ({reason})");
        }
        Some(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_links_are_decoded_as_they_were_encoded() {
        let links = [
            "https://example.org/",
            "https://example.org/a",
            "https://example.org/ab?x=1",
            "https://example.org/a",
            "http://other.test:81/%C3%A9",
        ];
        let encoded = encode(links.into_iter()).unwrap();
        assert_eq!(encoded.lines().nth(2), Some("21 b?x=1"));
        let decoded: Vec<String> = decode(&encoded).into_iter().map(NormalUrl::into_string).collect();
        assert_eq!(decoded, links);
        assert_eq!(decode("nonsense\n99 x\n0 https://example.org/\n").len(), 1, "invalid lines are skipped");
        assert_eq!(encode([].into_iter()).as_deref(), Some(""));
        let many: Vec<String> = (0..40_000).map(|n| format!("https://{n}.example.org/")).collect();
        assert_eq!(encode(many.iter().map(String::as_str)), None);
    }
}
