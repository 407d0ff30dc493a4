//! The links of a page as URLs for the frontier.

use super::super::scope::{From, Scope};
use crawlway_broker::MessageId;
use crawlway_content::{NormalUrl, html::Link};
use crawlway_store::frontier::NewUrl;
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
}

/// Sorts the links of a page.
pub(super) fn sort(
    links: Vec<Link>,
    scope: &Scope,
    from: From<'_>,
    item: &str,
    page_nofollow: bool,
    this_year: u64,
) -> Links {
    let mut sorted = Links::default();
    if page_nofollow {
        if !links.is_empty() {
            sorted.left_out.insert("nofollow", links.len());
        }
        return sorted;
    }
    let mut seen = HashSet::new();
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

/// A URL for the frontier.
pub(crate) fn new_url(url: NormalUrl, depth: u32, chain: u32, found_on: Option<&str>) -> NewUrl {
    NewUrl {
        item: MessageId::random().as_str().to_owned(),
        host: url.host().to_owned(),
        url: url.into_string(),
        depth,
        chain,
        found_on: found_on.map(str::to_owned),
        insist: false,
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
