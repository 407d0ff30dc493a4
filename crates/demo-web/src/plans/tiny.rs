//! Web of millions of tiny generated pages on one host, to measure the cost per URL.

use crate::{
    draft::{Draft, Place},
    random::Random,
    response::PageResponse,
    text,
};
use std::fmt::Write;

/// Child pages of each page, so that a million are within ten clicks.
const BRANCHES: usize = 4;

/// Links to random pages, most of which are known already.
const RANDOM_LINKS: usize = 2;

pub(super) fn fill(draft: &mut Draft, seed: u64, pages: usize) {
    let host = draft.host("tiny.test");
    draft.robots(host, "User-agent: *\nDisallow:\n");
    let start = draft.url(&Place::new(host, "/"));
    draft.truth.start.push(start);
    draft.hosts[host].generator = Some(Box::new(move |path| {
        let page = super::page_number(path, "/").filter(|page| *page < pages)?;
        Some(PageResponse::html(body(seed, page, pages)))
    }));
}

fn body(seed: u64, page: usize, pages: usize) -> String {
    let mut random = Random::of(seed, page as u64);
    let mut out = String::with_capacity(512);
    let _ = write!(out, "<!DOCTYPE html>\n<title>Tiny page {page}</title>\n<p>{}</p>\n", {
        text::mixed_sentence(&mut random)
    });
    let next = (1..=BRANCHES).map(|branch| page * BRANCHES + branch).filter(|next| *next < pages);
    let random_links: [usize; RANDOM_LINKS] = std::array::from_fn(|_| random.below(pages));
    for to in next.chain(random_links) {
        let _ = match to {
            0 => writeln!(out, "<a href=\"/\">Back</a>"),
            _ => writeln!(out, "<a href=\"/{to}\">Page {to}</a>"),
        };
    }
    out
}
