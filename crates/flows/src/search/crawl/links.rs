//! The links of a page as URLs for the frontier.

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

/// What becomes of a page's links.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Those that are followed, each once.
    pub(super) followed: Vec<NewUrl>,
    /// How many are not, by reason.
    left_out: BTreeMap<&'static str, usize>,
    /// All that may be followed in some scope, as they are kept with the page; `None` if they are too many.
    pub(super) kept: Option<String>,
}

/// The most that is kept of a page's links, in bytes. A page with more is fetched again where they are needed.
const MOST_KEPT: usize = 256 << 10;

/// Sorts the links of a page.
pub(super) fn sort(
    links: Vec<Link>,
    scope: &Scope,
    from: From<'_>,
    item: &str,
    page_nofollow: bool,
    this_year: u64,
) -> Links {
    let mut sorted = Links { kept: Some(String::new()), ..Links::default() };
    if page_nofollow {
        if !links.is_empty() {
            sorted.left_out.insert("nofollow", links.len());
        }
        return sorted;
    }
    let mut seen = HashSet::new();
    let followable = |link: &&Link| !link.rel.nofollow;
    sorted.kept = keep(links.iter().filter(followable).map(|link| link.url.as_str()));
    for link in links {
        if link.rel.nofollow {
            *sorted.left_out.entry("nofollow").or_default() += 1;
            continue;
        }
        match scope.follow(link.url, from, this_year) {
            Ok(followed) => {
                if seen.insert(followed.url.as_str().to_owned()) {
                    let (depth, chain) = (followed.depth, followed.chain);
                    let url = new_url(followed.url, depth, chain, Some(item));
                    sorted.followed.push(NewUrl { budget: followed.budget, ..url });
                }
            }
            Err(why) => *sorted.left_out.entry(why).or_default() += 1,
        }
    }
    sorted
}

/// Links as text: a line each, of how many bytes it shares with the one before, and the rest.
fn keep<'l>(links: impl Iterator<Item = &'l str>) -> Option<String> {
    let mut kept = String::new();
    let mut before = "";
    for link in links.filter(|link| !link.contains('\n')) {
        let shared = before.bytes().zip(link.bytes()).take_while(|(a, b)| a == b).count();
        let shared = (0..=shared).rev().find(|end| link.is_char_boundary(*end)).unwrap_or(0);
        let _ = writeln!(kept, "{shared} {}", &link[shared..]);
        if kept.len() > MOST_KEPT {
            return None;
        }
        before = link;
    }
    Some(kept)
}

/// What [`keep`] has made into text. What cannot be read is left out.
fn unpack(kept: &str) -> Vec<NormalUrl> {
    let mut before = String::new();
    let mut links = Vec::new();
    for line in kept.lines() {
        let Some((shared, rest)) = line.split_once(' ') else { continue };
        let Some(start) = shared.parse().ok().and_then(|shared: usize| before.get(..shared)) else {
            continue;
        };
        before = format!("{start}{rest}");
        links.extend(before.parse::<NormalUrl>());
    }
    links
}

/// The links that were kept with a page, as far as a scope has them.
pub(crate) fn follow_kept(page: &PageLinks, scope: &Scope, now: Timestamp) -> Vec<NewUrl> {
    let Ok(url) = page.url.parse::<NormalUrl>() else { return Vec::new() };
    let kind = Scope::kind(&url);
    let from = From { kind: &kind, depth: page.depth, chain: page.chain };
    let links =
        unpack(&page.links).into_iter().map(|url| Link { url, rel: Rel::default(), text: String::new() });
    sort(links.collect(), scope, from, &page.item, false, now.civil().0).followed
}

/// A URL for the frontier.
pub(crate) fn new_url(url: NormalUrl, depth: u32, chain: u32, found_on: Option<&str>) -> NewUrl {
    NewUrl {
        item: MessageId::random().as_str().to_owned(),
        // Origins share a host's rate limit, and need not share its outages.
        host: url.origin().to_owned(),
        url: url.into_string(),
        depth,
        chain,
        found_on: found_on.map(str::to_owned),
        insist: false,
        in_any_case: false,
        budget: None,
    }
}

impl Links {
    /// For the page's trail: what was left out, if anything.
    pub(super) fn told(&self) -> Option<String> {
        if self.left_out.is_empty() {
            return None;
        }
        let mut told = format!("links: {} followed", self.followed.len());
        for (why, count) in &self.left_out {
            let _ = write!(told, ", {count} left out ({why})");
        }
        Some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_links_come_back_as_they_were() {
        let links = [
            "https://example.org/",
            "https://example.org/a",
            "https://example.org/ab?x=1",
            "https://example.org/a",
            "http://other.test:81/%C3%A9",
        ];
        let kept = keep(links.into_iter()).unwrap();
        assert_eq!(kept.lines().nth(2), Some("21 b?x=1"));
        let back: Vec<String> = unpack(&kept).into_iter().map(NormalUrl::into_string).collect();
        assert_eq!(back, links);
        assert_eq!(
            unpack("nonsense\n99 x\n0 https://example.org/\n").len(),
            1,
            "what cannot be read is left out"
        );
        assert_eq!(keep([].into_iter()).as_deref(), Some(""));
        let many: Vec<String> = (0..40_000).map(|n| format!("https://{n}.example.org/")).collect();
        assert_eq!(keep(many.iter().map(String::as_str)), None);
    }
}
