//! Web of the crawl benchmark: one host with generated pages of about 11 KB and 20 links.
//!
//! Pages are composed of shared paragraphs on request, so that 20,000 pages need no memory and no start-up time.

use crate::{
    draft::{Draft, Place},
    random::Random,
    response::PageResponse,
    text,
};
use std::fmt::Write;

const LINKS: usize = 20;

/// Number of shared paragraphs; a page has about 25 of them, so that two pages have next to none in common.
const PARAGRAPHS: usize = 4096;

const BODY_BYTES: usize = 11 * 1024;

/// Child pages of each page, so that all are within a few clicks.
const BRANCHES: usize = 10;

pub(super) fn fill(draft: &mut Draft, seed: u64, pages: usize) {
    let host = draft.host("bench.test");
    draft.robots(host, "User-agent: *\nDisallow:\n");
    let mut random = Random::new(seed);
    let paragraphs: Vec<String> = (0..PARAGRAPHS).map(|_| paragraph(&mut random)).collect();
    for page in 0..pages {
        draft.expect(&Place::new(host, path(page)), &title(page), Some(word(page)), None);
    }
    let start = draft.url(&Place::new(host, "/"));
    draft.truth.start.push(start);
    draft.hosts[host].generator = Some(Box::new(move |path| {
        let page = super::page_number(path, "/page/").filter(|page| *page < pages)?;
        Some(PageResponse::html(body(seed, page, pages, &paragraphs)))
    }));
}

fn path(page: usize) -> String {
    if page == 0 { "/".to_owned() } else { format!("/page/{page}") }
}

fn title(page: usize) -> String {
    format!("Page {page} of the benchmark")
}

fn word(page: usize) -> String {
    format!("zq{page:05}x")
}

fn paragraph(random: &mut Random) -> String {
    let mut paragraph = String::from("<p>");
    for at in 0..random.between(4, 7) {
        if at > 0 {
            paragraph.push(' ');
        }
        paragraph.push_str(&text::mixed_sentence(random));
    }
    paragraph.push_str("</p>\n");
    paragraph
}

fn body(seed: u64, page: usize, pages: usize, paragraphs: &[String]) -> String {
    let mut random = Random::of(seed, page as u64);
    let mut out = String::with_capacity(BODY_BYTES + 1024);
    let (title, word) = (title(page), word(page));
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <meta name=\"description\" content=\"{title}, which has the word {word}.\">\n</head>\n<body>\n<nav>\n<ul>\n"
    );
    for link in 0..LINKS {
        let next = page * BRANCHES + 1 + link;
        let to = if link < BRANCHES && next < pages { next } else { random.below(pages) };
        let path = path(to);
        let _ = writeln!(out, "<li><a href=\"{path}\">Page {to}</a></li>");
    }
    let _ = write!(out, "</ul>\n</nav>\n<main>\n<article>\n<h1>{title}</h1>\n<p>They call it {word}.</p>\n");
    while out.len() < BODY_BYTES - 200 {
        out.push_str(&paragraphs[random.below(paragraphs.len())]);
    }
    out.push_str("</article>\n</main>\n</body>\n</html>\n");
    out
}
