//! The web of `crawlway demo`: small, readable, and worth searching.
//!
//! Texts are put together from hand-written sentences, so that a search for `lighthouse` or `sourdough` finds what a person
//! would expect. Around them is what a crawler meets on every web: printer versions, redirects, errors, rules, a slow host.

mod docs;
mod docs_texts;
mod news;
mod news_texts;
mod old;
mod shop;
mod shop_texts;
mod slow;
mod world;

use crate::{
    answer::Answer,
    draft::{Draft, Place},
    random::Random,
};
use std::fmt::Write;

/// The hosts in the order of their numbers.
pub(super) const HOSTS: [&str; 6] =
    ["news.test", "shop.test", "docs.test", "world.test", "slow.test", "old.test"];

const NEWS: usize = 0;
const SHOP: usize = 1;
const DOCS: usize = 2;
const WORLD: usize = 3;
const SLOW: usize = 4;
const OLD: usize = 5;

pub(super) fn fill(draft: &mut Draft, seed: u64) {
    for name in HOSTS {
        draft.host(name);
    }
    let mut random = Random::new(seed);
    news::fill(draft, &mut random);
    shop::fill(draft, &mut random);
    docs::fill(draft);
    world::fill(draft);
    slow::fill(draft);
    old::fill(draft);
    let start = draft.url(&Place::new(NEWS, "/"));
    draft.truth.start.push(start);
}

/// A sitemap of these places, and its URL for robots.txt.
fn sitemap(draft: &mut Draft, host: usize, places: &[Place]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for place in places {
        let _ = writeln!(xml, "<url><loc>{}</loc></url>", crate::html::escaped(&draft.url(place)));
    }
    xml.push_str("</urlset>\n");
    let place = Place::new(host, "/sitemap.xml");
    draft.put(&place, Answer::of_type("application/xml", xml));
    draft.url(&place)
}

/// A sentence with its blanks filled.
fn filled(sentence: &str, blanks: &[(&str, &str)]) -> String {
    let mut out = sentence.to_owned();
    for (name, value) in blanks {
        out = out.replace(name, value);
    }
    out
}

/// A title as it stands in a path.
fn slug(title: &str) -> String {
    let mut slug = String::new();
    for character in title.chars() {
        match character.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => slug.push(letter),
            '\'' => {}
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}
