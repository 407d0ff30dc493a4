//! Web of `crawlway demo`: small and readable, with sensible search results.
//!
//! Pages are composed of hand-written sentences (`texts/`), so that a search for `lighthouse` or `sourdough` has sensible
//! results. Around them are the usual cases of a crawl: printer versions, redirects, errors, robots.txt, a slow host.

mod ads;
mod docs;
mod news;
mod old;
mod shop;
mod slow;
mod world;

use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
    random::Random,
    response::PageResponse,
};
use std::fmt::Write;

/// Hosts by number. Browsers resolve names below `localhost` to this machine, so that the pages can be opened.
pub(super) const HOSTS: [&str; 6] = [
    "news.localhost",
    "shop.localhost",
    "docs.localhost",
    "world.localhost",
    "slow.localhost",
    "old.localhost",
];

const NEWS: usize = 0;
const SHOP: usize = 1;
const DOCS: usize = 2;
const WORLD: usize = 3;
const SLOW: usize = 4;
const OLD: usize = 5;

pub(super) fn fill(draft: &mut Draft, seed: u64) {
    for name in HOSTS {
        let host = draft.host(name);
        draft.put(&Place::new(host, "/style.css"), PageResponse::of_type("text/css", STYLE));
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

/// Blocks of a text file, separated by blank lines: the first line of each, and the others.
fn blocks(text: &'static str) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    text.split("\n\n").filter_map(|block| {
        let mut lines = block.lines();
        Some((lines.next()?, lines.collect()))
    })
}

/// Tab-separated columns of a line.
fn columns<const N: usize>(line: &'static str) -> [&'static str; N] {
    let mut columns = line.split('\t');
    std::array::from_fn(|_| columns.next().unwrap_or_default())
}

/// Style sheet of all pages.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { max-width: 40rem; margin: 2rem auto; padding: 0 1rem; font: 1.05rem/1.6 Georgia, serif; }
header p { margin: 0; font-variant: small-caps; letter-spacing: .08em; opacity: .7; }
h1 { margin: .2em 0 .6em; font-size: 1.9rem; line-height: 1.2; }
nav { margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid; }
nav ul { padding: 0; list-style: none; columns: 16rem; }
nav li { margin-bottom: .4em; break-inside: avoid; }
";

/// Page with the style sheet.
fn styled(title: impl Into<String>, paragraphs: Vec<String>, links: Vec<Link>) -> Html {
    let mut page = Html::new(title, paragraphs, links);
    page.head.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    page.head.push_str("<link rel=\"stylesheet\" href=\"/style.css\">\n");
    page
}

/// Adds a sitemap of these places, and returns its URL.
fn sitemap(draft: &mut Draft, host: usize, places: &[Place]) -> String {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
    );
    for place in places {
        let _ = writeln!(xml, "<url><loc>{}</loc></url>", crate::html::escaped(&draft.url(place)));
    }
    xml.push_str("</urlset>\n");
    let place = Place::new(host, "/sitemap.xml");
    draft.put(&place, PageResponse::of_type("application/xml", xml));
    draft.url(&place)
}

/// Replaces the placeholders of a sentence.
fn fill_in(sentence: &str, placeholders: &[(&str, &str)]) -> String {
    let mut out = sentence.to_owned();
    for (name, value) in placeholders {
        out = out.replace(name, value);
    }
    out
}

/// Title as a path segment.
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
