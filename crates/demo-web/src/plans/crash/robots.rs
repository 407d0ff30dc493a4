//! Robots rules of the crash web: robots.txt, `nofollow`, `noindex`.

use super::{Crash, HOSTS};
use crate::{draft::Place, ground_truth::NotIndexed, html::Link, response::PageResponse};
use hyper::header::HeaderName;

pub(super) fn add(crash: &mut Crash<'_>) {
    robots(crash);
    nofollow(crash);
    noindex(crash);
}

/// Three of four hosts have a robots.txt; the fourth answers 404, which allows everything.
fn robots(crash: &mut Crash<'_>) {
    for host in (0..HOSTS).filter(|host| host % 4 != 3) {
        crash.draft.robots(
            host,
            "# Rooms that are not shown\nUser-agent: *\nDisallow: /private/\nAllow: /private/open-\n",
        );
        let secret = Place::new(host, format!("/private/room-{host}"));
        let article = crash.ordinary_article();
        let links = crash.links_back();
        crash.draft.forbidden(&secret, &article.html(links));
        crash.link_twice(&secret, "No entry");
        if host % 8 == 0 {
            let open = Place::new(host, format!("/private/open-{host}"));
            crash.page(&open);
            crash.link_twice(&open, "Open house");
        }
    }
}

fn nofollow(crash: &mut Crash<'_>) {
    for _ in 0..5 {
        let place = crash.place("/advert/{}");
        unfollowed(crash, &place);
        let link = Link::to(crash.draft.url(&place), "Paid for").nofollow();
        crash.link_twice_with(&link);
    }
    // A page with `nofollow` in its `<meta>`, which is indexed itself.
    let (one, other) = (crash.place("/guest/{}"), crash.place("/guest/{}"));
    unfollowed(crash, &one);
    unfollowed(crash, &other);
    let links = [&one, &other].map(|place| Link::to(crash.draft.url(place), "A guest")).to_vec();
    let book = crash.place("/guest-book/{}");
    let article = crash.ordinary_article();
    crash.draft.page(&book, &article.html(links).robots("nofollow"), Some(article.word));
    crash.link_twice(&book, "The guest book");
}

fn unfollowed(crash: &mut Crash<'_>, place: &Place) {
    let article = crash.ordinary_article();
    crash.draft.unfollowed(place, &article.html(Vec::new()));
}

/// `noindex` pages, whose links lead to pages without other links.
fn noindex(crash: &mut Crash<'_>) {
    for number in 0..4 {
        let (place, behind) = (crash.place("/list/{}"), crash.place("/listed/{}"));
        crash.page(&behind);
        let article = crash.ordinary_article();
        let html = article.html(vec![Link::to(crash.draft.url(&behind), "Behind the list")]);
        let answer = match number {
            0 => PageResponse::html(html.render()).with(HeaderName::from_static("x-robots-tag"), "noindex"),
            1 => PageResponse::html(html.robots("NOINDEX, follow").render()),
            _ => PageResponse::html(html.robots("noindex").render()),
        };
        crash.draft.put(&place, answer);
        crash.draft.deny(&place, NotIndexed::Noindex);
        crash.link_twice(&place, "A list");
    }
}
