//! Duplicates of the crash web: copies, near ones, other spellings, canonical URLs.

use super::{Article, Crash, HOSTS};
use crate::{answer::Answer, draft::Place, html::Link, truth::Duplicate};

/// Words of a page that has a near-duplicate: long enough that a word more or less is lost in them.
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
    let links = crash.ways_back();
    let answer = Answer::html(article.html(links).render()).conditional(0);
    let (first, other) = (crash.place("/first/{}"), crash.place("/copy/{}"));
    let of = crash.draft.url(&first);
    for (place, duplicate) in [(&first, None), (&other, Some(Duplicate::Copy(of)))] {
        crash.draft.put(place, answer.clone());
        crash.draft.expect(place, &article.title, Some(article.word.clone()), duplicate);
        crash.hang(place, "Twice the same");
    }
}

/// The other page has its own title and its own word in the place of the first one's.
fn near(crash: &mut Crash<'_>) {
    let article = crash.article(NEAR_WORDS);
    let other = crash.article(1);
    let paragraphs = article.paragraphs.iter().map(|text| text.replace(&article.word, &other.word)).collect();
    let other = Article { paragraphs, ..other };
    let links = crash.ways_back();
    let (first, second) = (crash.place("/story/{}"), crash.place("/story/{}/print"));
    let of = crash.draft.url(&first);
    for (place, article, duplicate) in [(&first, article, None), (&second, other, Some(Duplicate::Near(of)))]
    {
        let answer = Answer::html(article.html(links.clone()).render()).conditional(0);
        crash.draft.put(place, answer);
        crash.draft.expect(place, &article.title, Some(article.word), duplicate);
        crash.hang(place, "Nearly the same");
    }
}

/// Links that spell the URL of a page otherwise. All of them mean pages that must be there once.
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
    // These are linked in no other spelling than these.
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
    crash.hang_link(&Link::to(spelling.clone(), "Otherwise spelled"));
    crash.draft.truth.spellings.insert(spelling, url);
}

/// Pages with a query that only says where the visitor came from.
fn canonical(crash: &mut Crash<'_>) {
    for _ in 0..5 {
        let place = crash.place("/product/{}");
        crash.page(&place);
        crash.hang(&place, "The page itself");
        for from in ["mail", "banner"] {
            let alias = Place::new(place.host, format!("{}?from={from}", place.path));
            let article = crash.ordinary_article();
            let links = crash.ways_back();
            crash.draft.alias(&alias, article.html(links), &place);
            crash.hang(&alias, "Seen elsewhere");
        }
    }
}
