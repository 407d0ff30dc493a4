//! A web of very many tiny pages on one host, for who wants to know what a URL costs: nothing is kept for any of them.

use crate::{
    answer::Answer,
    draft::{Draft, Place},
    random::Random,
    text,
};
use std::fmt::Write;

/// Next pages, so that a million are within ten clicks of the first.
const BRANCHES: usize = 4;

/// Links to anywhere, most of which are known already.
const ELSEWHERE: usize = 2;

pub(super) fn fill(draft: &mut Draft, seed: u64, pages: usize) {
    let host = draft.host("tiny.test");
    draft.robots(host, "User-agent: *\nDisallow:\n");
    let start = draft.url(&Place::new(host, "/"));
    draft.truth.start.push(start);
    draft.hosts[host].maker = Some(Box::new(move |path| {
        let page = number(path).filter(|page| *page < pages)?;
        Some(Answer::html(body(seed, page, pages)))
    }));
}

fn number(path: &str) -> Option<usize> {
    let digits = path.strip_prefix('/')?;
    if digits.is_empty() {
        return Some(0);
    }
    // `007` would be another URL with the same page.
    if digits.starts_with(['0', '+']) {
        return None;
    }
    digits.parse().ok()
}

fn body(seed: u64, page: usize, pages: usize) -> String {
    let mut random = Random::of(seed, page as u64);
    let mut out = String::with_capacity(512);
    let _ = write!(out, "<!DOCTYPE html>\n<title>Tiny page {page}</title>\n<p>{}</p>\n", {
        text::mixed_sentence(&mut random)
    });
    let next = (1..=BRANCHES).map(|branch| page * BRANCHES + branch).filter(|next| *next < pages);
    let elsewhere: [usize; ELSEWHERE] = std::array::from_fn(|_| random.below(pages));
    for to in next.chain(elsewhere) {
        let _ = match to {
            0 => writeln!(out, "<a href=\"/\">Back</a>"),
            _ => writeln!(out, "<a href=\"/{to}\">Page {to}</a>"),
        };
    }
    out
}
