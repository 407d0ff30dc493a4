//! Duplicates of the crash web: exact and near-duplicates, equivalent URLs, canonical URLs.

use super::{Article, Crash, HOSTS};
use crate::{draft::Place, ground_truth::Duplicate, html::Link, response::PageResponse};

/// Words of a page with a near-duplicate, so many that one changed word hardly changes the SimHash.
const NEAR_WORDS: usize = 600;

const PAIRS: usize = 10;

pub(super) fn add(crash: &mut Crash<'_>) {
    for _ in 0..PAIRS {
        copies(crash);
        near(crash);
    }
    spellings(crash);
    canonical(crash);
}

fn copies(crash: &mut Crash<'_>) {
    let article = crash.ordinary_article();
    let links = crash.links_back();
    let answer = PageResponse::html(article.html(links).render()).conditional(0);
    let (first, other) = (crash.place("/first/{}"), crash.place("/copy/{}"));
    let of = crash.draft.url(&first);
    for (place, duplicate) in [(&first, None), (&other, Some(Duplicate::Copy(of)))] {
        crash.draft.put(place, answer.clone());
        crash.draft.expect(place, &article.title, Some(article.word.clone()), duplicate);
        crash.link_twice(place, "Twice the same");
    }
}

/// Near-duplicate with another title and another unique word.
fn near(crash: &mut Crash<'_>) {
    let article = crash.article(NEAR_WORDS);
    let other = crash.article(1);
    let paragraphs = article.paragraphs.iter().map(|text| text.replace(&article.word, &other.word)).collect();
    let other = Article { paragraphs, ..other };
    let links = crash.links_back();
    let (first, second) = (crash.place("/story/{}"), crash.place("/story/{}/print"));
    let of = crash.draft.url(&first);
    for (place, article, duplicate) in [(&first, article, None), (&second, other, Some(Duplicate::Near(of)))]
    {
        let answer = PageResponse::html(article.html(links.clone()).render()).conditional(0);
        crash.draft.put(place, answer);
        crash.draft.expect(place, &article.title, Some(article.word), duplicate);
        crash.link_twice(place, "Nearly the same");
    }
}

/// Links with equivalent URLs of pages that must be indexed once.
fn spellings(crash: &mut Crash<'_>) {
    for number in 0..15 {
        let at = HOSTS + crash.random.below(crash.ordinary.len() - HOSTS);
        let place = crash.ordinary[at].clone();
        let (first, rest) = place.path.split_at(2);
        let escaped =
            first.as_bytes().get(1).map_or_else(String::new, |letter| format!("/%{letter:02x}{rest}"));
        let path = match number % 5 {
            0 => format!("{}#part-{number}", place.path),
            1 => format!("/aside/..{}", place.path),
            2 => format!("/.{}", place.path),
            3 => format!("/aside/./beside/../..{}", place.path),
            _ => escaped,
        };
        let spelling = crash.draft.url(&Place::new(place.host, path));
        spell(crash, spelling, &place);
    }
    // Pages without a link to their normalised URL.
    for (path, spellings) in [
        ("/~keeper/notes", ["/%7Ekeeper/notes", "/%7ekeeper/notes", "/~keeper/notes?"]),
        ("/caf%C3%A9/menu", ["/caf%c3%a9/menu", "/caf\u{e9}/menu", "/caf%C3%A9/menu#today"]),
    ] {
        let place = crash.place(path);
        crash.page(&place);
        for spelling in spellings {
            let spelling = crash.draft.url(&Place::new(place.host, spelling));
            spell(crash, spelling, &place);
        }
    }
}

fn spell(crash: &mut Crash<'_>, spelling: String, place: &Place) {
    let url = crash.draft.url(place);
    crash.link_twice_with(&Link::to(spelling.clone(), "Otherwise spelled"));
    crash.draft.truth.spellings.insert(spelling, url);
}

/// Pages with a tracking parameter and a canonical URL.
fn canonical(crash: &mut Crash<'_>) {
    for _ in 0..5 {
        let place = crash.place("/product/{}");
        crash.page(&place);
        crash.link_twice(&place, "The page itself");
        for from in ["mail", "banner"] {
            let alias = Place::new(place.host, format!("{}?from={from}", place.path));
            let article = crash.ordinary_article();
            let links = crash.links_back();
            crash.draft.alias(&alias, article.html(links), &place);
            crash.link_twice(&alias, "Seen elsewhere");
        }
    }
}
