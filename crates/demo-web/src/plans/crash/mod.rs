//! The web of the crash tests: 2,000 pages on 20 hosts, and everything that goes wrong on a web.
//!
//! Ordinary pages form a tree with five branches at each page, so that all are within a few clicks, and each is linked
//! from two more pages. Special ones hang from two ordinary pages each.

mod duplicates;
mod errors;
mod kinds;
mod redirects;
mod rules;

use crate::{
    draft::{Draft, Place},
    html::{Html, Link},
    random::Random,
    text,
};

/// Hosts with ordinary pages. One more has the connections that are reset: who backs off from it loses little.
pub(super) const HOSTS: usize = 20;

const BRANCHES: usize = 5;

/// Fewest and most words of an ordinary page.
const WORDS: (usize, usize) = (150, 400);

pub(super) fn fill(draft: &mut Draft, seed: u64, pages: usize) {
    for name in NAMES {
        draft.host(name);
    }
    let mut crash = Crash::new(draft, seed, pages);
    redirects::add(&mut crash);
    errors::add(&mut crash);
    duplicates::add(&mut crash);
    rules::add(&mut crash);
    kinds::add(&mut crash);
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

/// The web while its parts are added.
struct Crash<'a> {
    draft: &'a mut Draft,
    random: Random,
    /// Where the ordinary pages are; they are written last, when it is known what hangs from them.
    ordinary: Vec<Place>,
    hanging: Vec<Vec<Link>>,
    /// Pages with a title and a word of their own so far.
    numbered: usize,
    /// Special places so far, which go around the hosts.
    special: usize,
}

/// Text that no other page has.
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
        let hanging = vec![Vec::new(); pages];
        Self { draft, random, ordinary, hanging, numbered: 0, special: 0 }
    }

    /// A new text of about so many words.
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

    /// A new place; `{}` in the path becomes a number that no other place has.
    fn place(&mut self, path: &str) -> Place {
        let number = self.special;
        self.special += 1;
        Place::new(number % HOSTS, path.replace("{}", &number.to_string()))
    }

    /// Adds a page that must be indexed, at a place that the caller links to.
    fn page(&mut self, place: &Place) -> String {
        let article = self.ordinary_article();
        let links = self.ways_back();
        let title = article.title.clone();
        self.draft.page(place, &article.html(links), Some(article.word));
        title
    }

    /// Links from two ordinary pages.
    fn hang(&mut self, place: &Place, text: &str) {
        let url = self.draft.url(place);
        self.hang_link(&Link::to(url, text));
    }

    fn hang_link(&mut self, link: &Link) {
        let first = self.random.below(self.hanging.len());
        let second = (first + 1 + self.random.below(self.hanging.len() - 1)) % self.hanging.len();
        self.hanging[first].push(link.clone());
        self.hanging[second].push(link.clone());
    }

    /// Links from a special page to ordinary ones.
    fn ways_back(&mut self) -> Vec<Link> {
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
                // Links within a host are short, as people write them.
                let href = if to.host == place.host { to.path.clone() } else { self.draft.url(to) };
                links.push(Link::to(href, text::title(&mut self.random)));
            }
            links.append(&mut self.hanging[page]);
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
