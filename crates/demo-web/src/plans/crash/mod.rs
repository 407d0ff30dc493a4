//! Web of the crash tests: 2,000 pages on 20 hosts, with the special cases of a crawl.
//!
//! Ordinary pages form a tree with five children each, so that all are within a few clicks, and have links from two more
//! pages. Special pages have links from two ordinary pages.

mod content_types;
mod duplicates;
mod errors;
mod redirects;
mod robots;

use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
    random::Random,
    text,
};

/// Number of hosts with ordinary pages. One more host has the connection resets, so that its back-off delays no others.
pub(super) const HOSTS: usize = 20;

const BRANCHES: usize = 5;

/// Minimum and maximum words of an ordinary page.
const WORDS: (usize, usize) = (150, 400);

pub(super) fn fill(draft: &mut Draft, seed: u64, pages: usize) {
    for name in NAMES {
        draft.host(name);
    }
    let mut crash = Crash::new(draft, seed, pages);
    redirects::add(&mut crash);
    errors::add(&mut crash);
    duplicates::add(&mut crash);
    robots::add(&mut crash);
    content_types::add(&mut crash);
    crash.add_ordinary_pages();
    let start = draft.url(&Place::new(0, "/"));
    draft.truth.start.push(start);
}

#[rustfmt::skip]
const NAMES: [&str; HOSTS + 1] = [
    "alpha.test", "bravo.test", "charlie.test", "delta.test", "echo.test", "foxtrot.test", "golf.test",
    "hotel.test", "india.test", "juliett.test", "kilo.test", "lima.test", "mike.test", "november.test",
    "oscar.test", "papa.test", "quebec.test", "romeo.test", "sierra.test", "tango.test", "uniform.test",
];

/// Draft of the web with its generator.
struct Crash<'a> {
    draft: &'a mut Draft,
    random: Random,
    /// Places of the ordinary pages; they are written last, when their links are known.
    ordinary: Vec<Place>,
    /// Links of each ordinary page to special pages.
    extra_links: Vec<Vec<Link>>,
    /// Number of articles so far.
    numbered: usize,
    /// Number of special places so far, distributed over the hosts.
    special: usize,
}

/// Unique text of a page.
struct Article {
    title: String,
    word: String,
    paragraphs: Vec<String>,
}

impl Article {
    fn html(&self, links: Vec<Link>) -> Html {
        let mut html = Html::new(self.title.clone(), self.paragraphs.clone(), links);
        html.description = format!("{}: what is known about it.", self.title);
        html
    }
}

impl<'a> Crash<'a> {
    fn new(draft: &'a mut Draft, seed: u64, pages: usize) -> Self {
        let mut random = Random::new(seed);
        let ordinary = (0..pages).map(|number| ordinary_place(&mut random, number)).collect();
        let extra_links = vec![Vec::new(); pages];
        Self { draft, random, ordinary, extra_links, numbered: 0, special: 0 }
    }

    /// New text of about this many words.
    fn article(&mut self, words: usize) -> Article {
        let number = self.numbered;
        self.numbered += 1;
        let word = format!("zq{number:05}x");
        let title = format!("{} {number}", text::title(&mut self.random));
        let mut paragraphs = text::paragraphs(&mut self.random, words);
        let at = self.random.below(paragraphs.len());
        if let Some(paragraph) = paragraphs.get_mut(at) {
            paragraph.push_str(&format!(" They call it {word}."));
        }
        Article { title, word, paragraphs }
    }

    fn ordinary_article(&mut self) -> Article {
        let words = self.random.between(WORDS.0, WORDS.1);
        self.article(words)
    }

    /// New place; `{}` in the path becomes a unique number.
    fn place(&mut self, path: &str) -> Place {
        let number = self.special;
        self.special += 1;
        Place::new(number % HOSTS, path.replace("{}", &number.to_string()))
    }

    /// Adds a page that must be indexed; the caller adds links to it.
    fn page(&mut self, place: &Place) {
        let article = self.ordinary_article();
        let links = self.links_back();
        self.draft.page(place, &article.html(links), Some(article.word));
    }

    /// Adds links from two ordinary pages.
    fn link_twice(&mut self, place: &Place, text: &str) {
        let url = self.draft.url(place);
        self.link_twice_with(&Link::to(url, text));
    }

    fn link_twice_with(&mut self, link: &Link) {
        let first = self.random.below(self.extra_links.len());
        let second = (first + 1 + self.random.below(self.extra_links.len() - 1)) % self.extra_links.len();
        self.extra_links[first].push(link.clone());
        self.extra_links[second].push(link.clone());
    }

    /// Links of a special page to ordinary ones.
    fn links_back(&mut self) -> Vec<Link> {
        let start = Link::to(self.draft.url(&Place::new(0, "/")), "Start");
        let mut links = vec![start];
        for _ in 0..3 {
            let to = self.random.below(self.ordinary.len());
            links.push(Link::to(self.draft.url(&self.ordinary[to]), text::title(&mut self.random)));
        }
        links
    }

    fn add_ordinary_pages(&mut self) {
        let count = self.ordinary.len();
        let mut leads_to: Vec<Vec<usize>> = vec![Vec::new(); count];
        for page in 1..count {
            leads_to[(page - 1) / BRANCHES].push(page);
            leads_to[(page + count - 1 - self.random.below(count / 2)) % count].push(page);
            leads_to[self.random.below(count)].push(page);
        }
        for (page, targets) in leads_to.into_iter().enumerate() {
            let article = self.ordinary_article();
            let place = self.ordinary[page].clone();
            let mut links: Vec<Link> = Vec::new();
            for target in targets.into_iter().filter(|target| *target != page) {
                let to = &self.ordinary[target];
                // Links within a host are relative.
                let href = if to.host == place.host { to.path.clone() } else { self.draft.url(to) };
                links.push(Link::to(href, text::title(&mut self.random)));
            }
            links.append(&mut self.extra_links[page]);
            self.draft.page(&place, &article.html(links), Some(article.word));
        }
    }
}

fn ordinary_place(random: &mut Random, number: usize) -> Place {
    let host = number % HOSTS;
    if number < HOSTS {
        return Place::new(host, "/");
    }
    let slug = text::slug(random);
    let path = match random.below(5) {
        0 => format!("/{slug}-{number}"),
        1 => format!("/{}/{slug}-{number}.html", random.pick(crate::words::NOUNS)),
        2 => format!("/item?id={number}&name={slug}"),
        3 => format!("/{}/{}/{number}/", random.pick(crate::words::ADJECTIVES), slug),
        _ => format!("/{slug}/Part-{number}"),
    };
    Place::new(host, path)
}
