//! Errors of the crash web: 404 and 410, transient and permanent failures, connection resets.

use super::{Crash, HOSTS};
use crate::{
    draft::Place,
    response::{Fault, PageResponse},
};
use hyper::StatusCode;

pub(super) fn add(crash: &mut Crash<'_>) {
    for status in [StatusCode::NOT_FOUND; 10].into_iter().chain([StatusCode::GONE; 2]) {
        let place = crash.place("/gone/{}");
        crash.draft.status(&place, status);
        crash.link_twice(&place, "What was there");
    }
    for number in 0..8 {
        // The first half succeeds at the second attempt, the others at the third.
        let place = crash.place("/moody/{}");
        let fault = Fault::Status(StatusCode::INTERNAL_SERVER_ERROR);
        flaky(crash, &place, fault, 1 + number / 4);
    }
    let broken = crash.place("/broken/{}");
    crash.draft.failing(&broken, Fault::Status(StatusCode::INTERNAL_SERVER_ERROR));
    crash.link_twice(&broken, "Always broken");

    flaky(crash, &Place::new(HOSTS, "/cut-off-once"), Fault::Reset, 1);
    let cut_off = Place::new(HOSTS, "/cut-off");
    crash.draft.failing(&cut_off, Fault::Reset);
    crash.link_twice(&cut_off, "Always cut off");
}

/// Adds a page that fails this many times before it succeeds.
fn flaky(crash: &mut Crash<'_>, place: &Place, fault: Fault, times: u32) {
    let article = crash.ordinary_article();
    let links = crash.links_back();
    let answer = PageResponse::html(article.html(links).render()).conditional(0);
    crash.draft.put_with(place, answer, Some((fault, times)));
    crash.draft.expect(place, &article.title, Some(article.word), None);
    crash.link_twice(place, "Try again");
}
